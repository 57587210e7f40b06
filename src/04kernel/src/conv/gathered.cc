#include "conv/gathered.h"

#include "common/cpu_features.h"
#include "reduce/cpu_kernel.h"

#include <algorithm>

namespace refactor::kernel {

GatheredShape::GatheredShape(Geometry const& geometry, int64_t panel, int threads)
    : g(geometry),
      rows(g.out_channels / g.group),
      depth(g.in_channels / g.group * g.taps()),
      positions(g.out_size()),
      in_place(g.taps() == 1 && !g.padded()) {
    for (auto stride : g.stride) in_place = in_place && stride == 1;
    // Half of L2, but enough positions that reading W once for all of them does not count, and two blocks a thread.
    constexpr int64_t kLeast = 64;
    auto panels_of = [&](int64_t count) { return (count + panel - 1) / panel * panel; };
    auto cached = static_cast<int64_t>(cpu_features().l2 / 2 / sizeof(double)) / std::max<int64_t>(1, depth);
    block = std::min(panels_of(std::max(kLeast, cached)), panels_of(positions));
    if (auto parts = int64_t{2} * threads; threads > 1 && g.batch * g.group * positions < parts * block)
        block = std::max(panel, panels_of(g.batch * g.group * positions / parts));
}

PositionReach reach_of(Geometry const& g, PositionRun const& run, int64_t const (&tap)[3]) {
    int64_t at[3];
    for (int i = 0; i < 3; ++i) at[i] = run.at[i] * g.stride[i] - g.pad[i] + tap[i] * g.dilation[i];
    if (at[0] < 0 || at[0] >= g.in[0] || at[1] < 0 || at[1] >= g.in[1]) return {0, 0, 0};
    auto step = g.stride[2];
    auto begin = std::clamp<int64_t>((step - 1 - at[2]) / step, 0, run.count);
    auto end = at[2] >= g.in[2] ? 0 : std::min((g.in[2] - 1 - at[2]) / step + 1, run.count);
    return {begin, std::max(begin, end), (at[0] * g.in[1] + at[1]) * g.in[2] + at[2] + begin * step};
}

namespace {

void gather_run(double const* x, int64_t step, PositionReach const& reach, int64_t count, double* to) {
    int64_t i = 0;
    for (; i < reach.begin; ++i) to[i] = 0;
    x += reach.offset;
    if (step == 1)
        for (; i < reach.end; ++i) to[i] = *x++;
    else
        for (; i < reach.end; ++i, x += step) to[i] = *x;
    for (; i < count; ++i) to[i] = 0;
}

}  // namespace

void gather_windows(GatheredShape const& s, double const* x, int64_t first, int64_t count, int64_t panel, int64_t width,
                    double* target) {
    auto const& g = s.g;
    auto channels = g.in_channels / g.group, taps = g.taps();
    for (int64_t begin = 0; begin < count; begin += panel) {
        auto used = std::min(panel, count - begin), wide = (used + width - 1) / width * width;
        SmallVector<PositionRun, 32> runs;
        for (int64_t lane = 0; lane < used;) {
            auto position = first + begin + lane, column = position % g.out[2], row = position / g.out[2];
            auto length = std::min(used - lane, g.out[2] - column);
            runs.push_back({lane, length, {row / g.out[1], row % g.out[1], column}});
            lane += length;
        }
        int64_t tap[3], number = 0;
        for (tap[0] = 0; tap[0] < g.kernel[0]; ++tap[0])
            for (tap[1] = 0; tap[1] < g.kernel[1]; ++tap[1])
                for (tap[2] = 0; tap[2] < g.kernel[2]; ++tap[2], ++number)
                    for (auto const& run : runs) {
                        auto reach = reach_of(g, run, tap);
                        auto* to = target + number * wide + run.lane;
                        for (int64_t c = 0; c < channels; ++c)
                            gather_run(x + c * g.in_size(), g.stride[2], reach, run.count, to + c * taps * wide);
                    }
        for (int64_t k = 0; used < wide && k < s.depth; ++k) std::fill_n(target + k * wide + used, wide - used, 0.);
        target += wide * s.depth;
    }
}

std::string why_not_gathered(Epilogue const& epilogue, Request const& request, Isa isa) {
    if (auto reason = why_not_isa(request, isa); !reason.empty()) return reason;
    if (auto reason = why_not_plain_cpu(request); !reason.empty()) return reason;
    if (request.inputs[0].dtype != DataType::F64)
        return "is for f64, got " + std::string(name_of(request.inputs[0].dtype));
    return epilogue.activation.kind > ActivationKind::Relu ? "activations of f64 are limited to Relu" : "";
}

void finish_positions(Epilogue const& epilogue, double bias, double const* residual, double* y, int64_t count) {
    bool relu = epilogue.activation.kind == ActivationKind::Relu, last = epilogue.residual_last;
    for (int64_t i = 0; i < count; ++i) {
        auto value = y[i] + bias, more = residual ? residual[i] : 0.;
        if (!last) value += more;
        if (relu) value = value < 0 ? 0 : value;
        y[i] = last ? value + more : value;
    }
}

}  // namespace refactor::kernel
