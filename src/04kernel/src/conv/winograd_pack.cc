#include "conv/winograd_pack.h"

#include "conv/winograd_filters.h"
#include "movement/transpose_small.h"

#include <algorithm>
#include <span>

namespace refactor::kernel {

namespace {

constexpr double kPoints[] = {0, 1, -1, 2, -2, 0.5, -0.5};

constexpr WinogradForm kForms[] = {
    {{3, 3}, {2, 2}, 16}, {{3, 3}, {4, 4}, 36}, {{3, 3}, {6, 6}, 64},    {{5, 5}, {2, 2}, 36},   {{5, 5}, {4, 4}, 64},
    {{7, 7}, {2, 2}, 64}, {{1, 3}, {1, 4}, 6},  {{3, 1}, {4, 1}, 6},     {{1, 5}, {1, 4}, 8},    {{5, 1}, {4, 1}, 8},
    {{1, 7}, {1, 2}, 8},  {{7, 1}, {2, 1}, 8},  {{3, 3}, {2, 2}, 16, 2}, {{3, 3}, {4, 4}, 36, 2}};

class FilterPacker {
    /// Input channels whose filters are transformed together, so that a product gets whole cache lines: products are
    /// far apart, and L1 could not keep a line of each.
    static constexpr int64_t kDeep = 8, kMostLanes = 32, kMostTaps = 49, kMostProducts = 64;

    WinogradForm const& form_;
    ChunkList const& list_;
    Geometry const& g_;
    FilterTransform transform_;
    FilterFunction function_;
    int64_t taps_ = form_.taps(), filters_ = g_.in_channels * g_.all_taps[0] * taps_;

    /// Input channels of a chunk, from the one in `row` of its weights on: `count`, of which `present` exist, whose
    /// filters begin at `w`.
    void pack_some(Chunk const& chunk, int64_t row, int64_t count, int64_t present, float const* w,
                   float* packed) const {
        float g[kDeep * kMostTaps * kMostLanes], u[kMostProducts * kDeep * kMostLanes];
        auto lanes = int64_t{chunk.blocks} * list_.block, step = count * lanes;
        auto channels = std::min(lanes, list_.out_channels - int64_t{chunk.first} * list_.block);
        if (channels < lanes || present < count) std::fill_n(g, step * taps_, 0.f);
        transpose_words(reinterpret_cast<uint32_t const*>(w), filters_, channels, present * taps_,
                        reinterpret_cast<uint32_t*>(g), lanes);
        for (int64_t i = 0; i < count; ++i)
            for (int64_t at = 0; at < lanes; at += list_.block)
                function_(transform_, g + i * taps_ * lanes + at, lanes, u + i * lanes + at, step);
        auto* to = packed + chunk.weights + row * lanes;
        for (int64_t p = 0; p < form_.products; ++p) std::copy_n(u + p * step, step, to + p * list_.floats);
    }

public:
    FilterPacker(WinogradForm const& form, ChunkList const& list, Geometry const& g)
        : form_(form),
          list_(list),
          g_(g),
          transform_(form),
          function_((list.block == 16 ? winograd_filters_avx512 : winograd_filters_avx2)(form)) {}
    void pack(Chunk const& chunk, float const* w, float* packed) const {
        auto depth = g_.all_taps[0], channels = list_.in_channels / g_.kernel[0];
        // With depth the filters of two channels are not next to each other.
        auto most = depth == 1 ? kDeep : 1;
        w += (chunk.first * list_.block * g_.in_channels * depth + g_.first_tap[0]) * taps_;
        for (int64_t plane = 0; plane < g_.kernel[0]; ++plane)
            for (int64_t c = 0, count; c < channels; c += count) {
                count = std::min(most, channels - c);
                auto present = std::clamp<int64_t>(g_.in_channels - c, 0, count);
                auto first = std::min(c, g_.in_channels - 1) * depth + plane;
                pack_some(chunk, plane * channels + c, count, present, w + first * taps_, packed);
            }
    }
};

}  // namespace

WinogradForm const* winograd_form(int64_t kernel_rows, int64_t kernel_cols, int64_t outputs, int64_t stride) {
    for (auto const& form : kForms)
        if (form.kernel[0] == kernel_rows && form.kernel[1] == kernel_cols && form.stride == stride &&
            (!form.plane() || form.tile[0] == outputs))
            return &form;
    return nullptr;
}

std::string winograd_format(WinogradForm const& form, ChunkList const& list) {
    auto name = form.plane() ? "winograd_f" + std::to_string(form.tile[0]) + "x" + std::to_string(form.kernel[0])
                             : "winograd_line" + std::to_string(form.taps());
    return name + (form.strided() ? "s" : "") + ":" + std::to_string(list.block);
}

FilterTransform::FilterTransform(WinogradForm const& form) {
    auto plane = form.plane(), strided = form.strided();
    auto taps = strided ? 2 : plane ? form.kernel[0] : form.taps();
    auto points = strided ? form.tile[0] : (plane ? form.tile[0] + taps - 1 : form.products) - 1;
    for (int64_t i = 0; i < points; ++i) {
        double scale = i == 0 && points == 7 ? -1 : 1, power = 1;
        for (int64_t j = 0; j < points; ++j)
            if (j != i) scale *= kPoints[i] - kPoints[j];
        for (int64_t k = 0; k < taps; ++k, power *= kPoints[i]) g[i][k] = power / scale;
    }
}

void pack_winograd(WinogradForm const& form, ChunkList const& list, Geometry const& g, float const* w, float* packed) {
    FilterPacker packer(form, list, g);
    for (auto const& chunk : list.chunks) packer.pack(chunk, w, packed);
}

}  // namespace refactor::kernel
