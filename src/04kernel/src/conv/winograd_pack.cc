#include "conv/winograd_pack.h"

#include <algorithm>
#include <span>

namespace refactor::kernel {

namespace {

/// Filters that are transformed together: a block of output channels of either instruction set.
constexpr int64_t kMostLanes = 16;
using Lanes = double[kMostLanes];

constexpr double kPoints[] = {0, 1, -1, 2, -2, 0.5, -0.5};
constexpr int64_t kMostProducts = 8, kMostTaps = 7;

constexpr WinogradForm kForms[] = {{{3, 3}, {2, 2}, 16},    {{3, 3}, {4, 4}, 36},   {{3, 3}, {6, 6}, 64},
                                   {{1, 3}, {1, 4}, 6},     {{3, 1}, {4, 1}, 6},    {{1, 5}, {1, 4}, 8},
                                   {{5, 1}, {4, 1}, 8},     {{1, 7}, {1, 2}, 8},    {{7, 1}, {2, 1}, 8},
                                   {{3, 3}, {2, 2}, 16, 2}, {{3, 3}, {4, 4}, 36, 2}};

/// G of one dimension: the values of a filter, as a polynomial of its taps, at the points 0, ±1 (, ±2, ±1/2), over
/// ∏ (point - other points); for ∞ it is the highest tap. The sign of the first row is that of the row of Bᵀ.
class FilterTransform {
    int64_t taps_, products_;
    double g_[kMostProducts][kMostTaps] = {};

public:
    FilterTransform(int64_t taps, int64_t products) : taps_(taps), products_(products) {
        auto points = products - 1;
        for (int64_t i = 0; i < points; ++i) {
            double scale = i == 0 && points == 7 ? -1 : 1, power = 1;
            for (int64_t j = 0; j < points; ++j)
                if (j != i) scale *= kPoints[i] - kPoints[j];
            for (int64_t k = 0; k < taps; ++k, power *= kPoints[i]) g_[i][k] = power / scale;
        }
    }
    /// out[i] = Σ g[i][k] in[k · step]. If every point but 0 has its negative, their rows differ in the sign of odd
    /// taps.
    void apply(Lanes const* in, int64_t step, Lanes* out, int64_t out_step) const {
        auto const& highest = in[(taps_ - 1) * step];
        for (int64_t l = 0; l < kMostLanes; ++l)
            out[0][l] = g_[0][0] * in[0][l], out[(products_ - 1) * out_step][l] = highest[l];
        bool const pairs = products_ % 2 == 0;
        for (int64_t i = 1; i + 1 < products_; i += pairs ? 2 : 1) {
            Lanes even, odd;
            for (int64_t l = 0; l < kMostLanes; ++l) even[l] = g_[i][0] * in[0][l], odd[l] = g_[i][1] * in[step][l];
            for (int64_t k = 2; k < taps_; ++k) {
                auto& to = k % 2 ? odd : even;
                for (int64_t l = 0; l < kMostLanes; ++l) to[l] += g_[i][k] * in[k * step][l];
            }
            for (int64_t l = 0; l < kMostLanes; ++l) {
                out[i * out_step][l] = even[l] + odd[l];
                if (pairs) out[(i + 1) * out_step][l] = even[l] - odd[l];
            }
        }
    }
};

/// Transforms the filters of one input channel and `lanes` output channels, `stride` floats apart, and stores product p
/// at to + p * floats.
void pack_lanes(WinogradForm const& form, FilterTransform const& transform, float const* w, int64_t stride,
                int64_t present, int64_t lanes, float* to, int64_t floats) {
    Lanes g[9] = {}, half[3 * kMostProducts], u[kMostProducts * kMostProducts];
    for (int64_t l = 0; l < present; ++l)
        for (int64_t k = 0; k < form.taps(); ++k) g[k][l] = static_cast<double>(w[l * stride + k]);
    auto along = [&](Lanes const* in, int64_t step, Lanes* out, int64_t out_step) {
        if (!form.strided()) return transform.apply(in, step, out, out_step);
        transform.apply(in, 2 * step, out, out_step);
        std::copy_n(in[step], kMostLanes, out[(form.tile[0] + 1) * out_step]);
    };
    if (form.plane()) {
        auto filters = form.tile[0] + 2;
        for (int64_t j = 0; j < 3; ++j) along(g + j, 3, half + j, 3);
        for (int64_t i = 0; i < filters; ++i) along(half + i * 3, 1, u + i * filters, 1);
    } else {
        transform.apply(g, 1, u, 1);
    }
    for (int64_t p = 0; p < form.products; ++p)
        for (int64_t l = 0; l < lanes; ++l) to[p * floats + l] = static_cast<float>(u[p][l]);
}

}  // namespace

WinogradForm const* winograd_form(int64_t kernel_rows, int64_t kernel_cols, int64_t outputs, int64_t stride) {
    for (auto const& form : kForms)
        if (form.kernel[0] == kernel_rows && form.kernel[1] == kernel_cols && form.stride == stride &&
            (!form.plane() || form.tile[0] == outputs))
            return &form;
    return nullptr;
}

std::string winograd_format(WinogradForm const& form, ChunkList const& list) {
    auto name =
        form.plane() ? "winograd_f" + std::to_string(form.tile[0]) : "winograd_line" + std::to_string(form.taps());
    return name + (form.strided() ? "s" : "") + ":" + std::to_string(list.block);
}

void pack_winograd(WinogradForm const& form, ChunkList const& list, Geometry const& g, float const* w, float* packed) {
    auto stride = g.in_channels * g.all_taps[0] * form.taps(), plane_channels = list.in_channels / g.kernel[0];
    bool plane = form.plane();
    bool strided = form.strided();
    FilterTransform transform(strided ? 2
                              : plane ? 3
                                      : form.taps(),
                              strided ? form.tile[0] + 1
                              : plane ? form.tile[0] + 2
                                      : form.products);
    for (auto const& chunk : list.chunks)
        for (int64_t i = 0; i < list.in_channels; ++i)
            for (int64_t k = 0; k < chunk.blocks; ++k) {
                auto c = i % plane_channels, depth = g.first_tap[0] + i / plane_channels;
                auto m = (chunk.first + k) * list.block;
                auto present = c < g.in_channels ? std::clamp<int64_t>(list.out_channels - m, 0, list.block) : 0;
                auto* to = packed + chunk.weights + (i * chunk.blocks + k) * list.block;
                auto const* from = w + m * stride + (c * g.all_taps[0] + depth) * form.taps();
                pack_lanes(form, transform, from, stride, present, list.block, to, list.floats);
            }
}

}  // namespace refactor::kernel
