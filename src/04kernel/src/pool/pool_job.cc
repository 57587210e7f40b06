#include "pool/pool_job.h"

#include "conv/cost.h"
#include "pool/pool.h"

#include <algorithm>
#include <utility>

namespace refactor::kernel {

namespace {

/// Some window has no tap inside.
bool may_see_only_padding(Geometry const& g) {
    for (int axis = 0; axis < 3; ++axis)
        for (int64_t o = 0; o < g.out[axis]; ++o) {
            auto start = o * g.stride[axis] - g.pad[axis], step = g.dilation[axis];
            auto first = start < 0 ? (step - 1 - start) / step : 0;
            if (first >= g.kernel[axis] || start + first * step >= g.in[axis]) return true;
        }
    return false;
}

}  // namespace

Result<Geometry, Rejection> vector_geometry(PoolInfo const& info, BindArgs const& args) {
    auto g = pool_geometry(info.window, info.kernel, args);
    if (!g) return g;
    if (g->empty()) return Err{Rejection{"is for tensors with elements"}};
    if (args.outputs.size() > 1 && args.outputs[1]) return Err{Rejection{"does not give indices"}};
    for (int axis = 0; axis < 3; ++axis)
        if (g->pad[axis] < 0 || g->pad_end[axis] < 0) return Err{Rejection{"does not handle negative pads"}};
    auto lanes = block_of(args.inputs[0]->layout);
    if (info.kind == PoolKind::Max && g->in_channels % lanes && may_see_only_padding(*g))
        return Err{Rejection{"would store -inf behind the last channel, for a window sees only padding"}};
    return g;
}

std::string vector_mismatch(PoolInfo const& info, Request const& request, Isa isa, DataType dtype) {
    if (auto reason = pool_mismatch(info, request); !reason.empty()) return reason;
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (request.isa < isa) return "needs " + std::string(name_of(isa));
    if (x.dtype != dtype) return "handles " + std::string(name_of(dtype)) + ", got " + std::string(name_of(x.dtype));
    if (request.outputs.size() > 1 && !request.outputs[1].absent()) return "does not give indices";
    if (dtype == DataType::BF16)
        return x.layout == Layout::Blocked32 && y.layout == x.layout ? "" : "expects X and Y in blocks of 32 channels";
    auto blocked = isa == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    if (x.layout != y.layout || (x.layout != blocked && x.layout != Layout::Plain))
        return "expects X and Y both Plain or both in the blocked layout of its vectors";
    return {};
}

double memory_bandwidth(int threads, double bytes) {
    return CostModel(without_dots(cpu_features().isa), threads).bandwidth(bytes);
}

template <class T>
PoolJobOf<T> job_of(Geometry const& g, PoolInfo const& info) {
    return {nullptr,
            nullptr,
            g.in[1],
            g.in[2],
            g.out[2],
            0,
            0,
            g.kernel[1],
            g.kernel[2],
            g.stride[1],
            g.stride[2],
            g.dilation[1],
            g.dilation[2],
            g.pad[1],
            g.pad[2],
            g.pad_end[1],
            g.pad_end[2],
            1,
            0,
            1,
            nullptr,
            info.kind == PoolKind::Max,
            info.kind == PoolKind::Sum,
            info.count_include_pad};
}
template PoolJobOf<float> job_of<float>(Geometry const&, PoolInfo const&);
template PoolJobOf<double> job_of<double>(Geometry const&, PoolInfo const&);
template PoolJobOf<uint16_t> job_of<uint16_t>(Geometry const&, PoolInfo const&);

template <class T>
std::vector<T> counted_columns(Geometry const& g, PoolInfo const& info) {
    std::vector<T> counted;
    auto step = g.dilation[2], size = g.in[2] + (info.count_include_pad ? g.pad[2] + g.pad_end[2] : 0);
    for (int64_t col = 0; col < g.out[2]; ++col) {
        auto start = col * g.stride[2] - (info.count_include_pad ? 0 : g.pad[2]);
        auto first = start < 0 ? (step - 1 - start) / step : 0;
        auto end = start >= size ? 0 : std::min(g.kernel[2], (size - 1 - start) / step + 1);
        counted.push_back(static_cast<T>(std::max<int64_t>(0, end - first)));
    }
    return counted;
}
template std::vector<float> counted_columns(Geometry const&, PoolInfo const&);
template std::vector<double> counted_columns(Geometry const&, PoolInfo const&);

int64_t bands_of(Geometry const& g, int64_t planes, int threads) {
    if (threads <= 1) return 1;
    return std::clamp<int64_t>((4 * threads + planes - 1) / planes, 1, std::max<int64_t>(1, g.out[1] / g.kernel[1]));
}

template <class T>
void move_to_plane(PoolJobOf<T>& job, Geometry const& g, int64_t z, int64_t lanes) {
    auto start = z * g.stride[0] - g.pad[0], step = g.dilation[0];
    auto inside = [&](int64_t from, int64_t size) {  // of the window's planes: the first, and the one after the last
        auto first = from < 0 ? (step - 1 - from) / step : 0;
        auto end = from >= size ? 0 : std::min(g.kernel[0], (size - 1 - from) / step + 1);
        return std::pair(std::min(first, end), end);
    };
    auto [first, end] = inside(start, g.in[0]);
    auto [counted, counted_end] = inside(start + g.pad[0], g.in[0] + g.pad[0] + g.pad_end[0]);
    auto plane = g.in[1] * g.in[2] * lanes;
    job.planes = end - first, job.plane_step = step * plane;
    job.counted_planes = job.count_padding ? counted_end - counted : job.planes;
    job.x += (start + first * step) * plane;
    job.y += z * g.out[1] * g.out[2] * lanes;
}
template void move_to_plane(PoolJobOf<float>&, Geometry const&, int64_t, int64_t);
template void move_to_plane(PoolJobOf<double>&, Geometry const&, int64_t, int64_t);
template void move_to_plane(PoolJobOf<uint16_t>&, Geometry const&, int64_t, int64_t);

}  // namespace refactor::kernel
