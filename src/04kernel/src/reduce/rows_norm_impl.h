#pragma once
// Written against `Vec`; include `vec_*.h` and `math.h`, or those for f64, first.
#include "reduce/rows_reduce_impl.h"

namespace refactor::kernel {
namespace {

/// Sum of (x - mean)².
Element squares(Element const* x, int64_t size, Element mean) {
    Vec acc[kLanes], m = Vec::set(mean);
#pragma GCC unroll 4
    for (int v = 0; v < kLanes; ++v) acc[v] = Vec::zero();
    int64_t i = 0;
    for (; i + kLanes * kWidth <= size; i += kLanes * kWidth)
#pragma GCC unroll 4
        for (int v = 0; v < kLanes; ++v) {
            Vec d = Vec::load(x + i + v * kWidth) - m;
            acc[v] = fma(d, d, acc[v]);
        }
    for (; i < size; i += kWidth) {
        int left = left_of(size - i);
        Vec d = select(first_lanes(left), load_part(x + i, left) - m, Vec::zero());
        acc[0] = fma(d, d, acc[0]);
    }
    return sum((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

/// `scales`, `biases`: one for each element.
template <bool scales, bool biases>
void normalise_row(NormRowOf<Element> const& r, Element const* x, Element mean, Element factor) {
    Vec m = Vec::set(mean), f = Vec::set(factor);
    Vec const one_scale = Vec::set(*r.scale), one_bias = r.bias ? Vec::set(*r.bias) : Vec::zero();
    auto const *scale = r.scale, *bias = r.bias;
    auto* y = r.y;
    int64_t const size = r.size;
    int64_t i = 0;
    for (; i + kWidth <= size; i += kWidth)
        fma((Vec::load(x + i) - m) * f, scales ? Vec::load(scale + i) : one_scale,
            biases ? Vec::load(bias + i) : one_bias)
            .store(y + i);
    if (i == size) return;
    int const left = static_cast<int>(size - i);
    fma((Vec::load_first(x + i, left) - m) * f, scales ? Vec::load_first(scale + i, left) : one_scale,
        biases ? Vec::load_first(bias + i, left) : one_bias)
        .store_first(y + i, left);
}

void layer_norm(NormRowOf<Element> const& r) {
    Element const* x = r.x;
    if (r.residual) {
        Element* added = r.sum ? r.sum : r.y;
        for (int64_t i = 0; i < r.size; i += kWidth) {
            int left = left_of(r.size - i);
            store_part(load_part(x + i, left) + load_part(r.residual + i, left), added + i, left);
        }
        x = added;
    } else if (r.sum) {
        for (int64_t i = 0; i < r.size; i += kWidth) {
            int left = left_of(r.size - i);
            store_part(load_part(x + i, left), r.sum + i, left);
        }
    }
    auto size = static_cast<Element>(r.size);
    Element mean = r.rms ? 0 : partial<RowOp::Sum>(x, r.size, 0) / size;
    Element factor = 1 / root_of(squares(x, r.size, mean) / size + r.epsilon);
    bool const has_biases = r.bias && r.bias_step;
    if (r.scale_step)
        has_biases ? normalise_row<true, true>(r, x, mean, factor) : normalise_row<true, false>(r, x, mean, factor);
    else
        has_biases ? normalise_row<false, true>(r, x, mean, factor) : normalise_row<false, false>(r, x, mean, factor);
}

/// `vectors` vectors of rows side by side, of which the last has `tail` lanes.
template <int vectors>
void layer_norm_lanes(NormRowOf<Element> const& r, int64_t rows, int64_t first, int tail) {
    auto at = [&](Element const* p, int64_t k, int v) __attribute__((always_inline)) {
        return load_part(p + k * rows + first + v * kWidth, v + 1 == vectors ? tail : kWidth);
    };
    Vec const size = Vec::set(static_cast<Element>(r.size));
    Vec mean[vectors], factor[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) mean[v] = factor[v] = Vec::zero();
    if (!r.rms) {
        for (int64_t k = 0; k < r.size; ++k)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) mean[v] = mean[v] + at(r.x, k, v);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) mean[v] = mean[v] / size;
    }
    for (int64_t k = 0; k < r.size; ++k)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            Vec d = at(r.x, k, v) - mean[v];
            factor[v] = fma(d, d, factor[v]);
        }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
        factor[v] = Vec::set(1) / sqrt(factor[v] / size + Vec::set(static_cast<Element>(r.epsilon)));
    for (int64_t k = 0; k < r.size; ++k) {
        Vec const scale = Vec::set(r.scale[k * r.scale_step]);
        Vec const bias = r.bias ? Vec::set(r.bias[k * r.bias_step]) : Vec::zero();
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            store_part(fma((at(r.x, k, v) - mean[v]) * factor[v], scale, bias), r.y + k * rows + first + v * kWidth,
                       v + 1 == vectors ? tail : kWidth);
    }
}
void layer_norm_lanes(NormRowOf<Element> const& r, int64_t rows) {
    int64_t i = 0;
    for (; i + kLanes * kWidth <= rows; i += kLanes * kWidth) layer_norm_lanes<kLanes>(r, rows, i, kWidth);
    for (; i < rows; i += kWidth) layer_norm_lanes<1>(r, rows, i, left_of(rows - i));
}

void group_norm(Element const* x, Element const* scale, Element const* bias, Element* y, int64_t channels,
                int64_t positions, float epsilon) {
    auto size = static_cast<Element>(channels * positions);
    Element mean = partial<RowOp::Sum>(x, channels * positions, 0) / size;
    Element factor = 1 / root_of(squares(x, channels * positions, mean) / size + epsilon);
    for (int64_t c = 0; c < channels; ++c, x += positions, y += positions) {
        Vec m = Vec::set(mean), f = Vec::set(factor * scale[c]), b = Vec::set(bias[c]);
        for (int64_t i = 0; i < positions; i += kWidth) {
            int left = left_of(positions - i);
            store_part(fma(load_part(x + i, left) - m, f, b), y + i, left);
        }
    }
}

template <bool kSquares>
void lane_sums_of(Element const* x, int64_t positions, Element const* mean, double* sums) {
    // Partial sums of so many positions round as little as those of rows do.
    constexpr int64_t kPositions = 256;
    Vec m = kSquares ? Vec::load(mean) : Vec::zero();
    for (int64_t first = 0; first < positions; first += kPositions) {
        auto last = first + kPositions < positions ? first + kPositions : positions;
        Vec acc[kLanes];
#pragma GCC unroll 4
        for (int v = 0; v < kLanes; ++v) acc[v] = Vec::zero();
        auto add = [&](Vec& sum, int64_t position) {
            Vec d = Vec::load(x + position * kWidth);
            if constexpr (kSquares) d = d - m, sum = fma(d, d, sum);
            if constexpr (!kSquares) sum = sum + d;
        };
        auto p = first;
        for (; p + kLanes <= last; p += kLanes)
#pragma GCC unroll 4
            for (int v = 0; v < kLanes; ++v) add(acc[v], p + v);
        for (; p < last; ++p) add(acc[0], p);
        Element lanes[kWidth];
        ((acc[0] + acc[1]) + (acc[2] + acc[3])).store(lanes);
        for (int i = 0; i < kWidth; ++i) sums[i] += static_cast<double>(lanes[i]);
    }
}

void lane_sums(Element const* x, int64_t positions, Element const* mean, double* sums) {
    if (mean)
        lane_sums_of<true>(x, positions, mean, sums);
    else
        lane_sums_of<false>(x, positions, mean, sums);
}

void lane_affine(Element const* x, int64_t positions, Element const* mean, Element const* factor, Element const* bias,
                 Element* y) {
    Vec m = Vec::load(mean), f = Vec::load(factor), b = Vec::load(bias);
    for (int64_t p = 0; p < positions; ++p) fma(Vec::load(x + p * kWidth) - m, f, b).store(y + p * kWidth);
}

}  // namespace
}  // namespace refactor::kernel
