#pragma once
#include "conv/winograd.h"

namespace refactor::kernel {

/// G of one dimension: the values of a filter, as a polynomial of its taps, at the points 0, ±1 (, ±2, ±1/2), over
/// ∏ (point - other points); for ∞ it is the highest tap. The sign of the first row is that of the row of Bᵀ. Of a
/// stride of 2 those of the outer taps, with the points 0, 1 (, -1, 2); a row that is the middle tap follows.
struct FilterTransform {
    static constexpr int kMostProducts = 8, kMostTaps = 7;
    double g[kMostProducts][kMostTaps] = {};

    explicit FilterTransform(WinogradForm const&);
};

/// Transforms one filter for each lane of a block of output channels, in f64: tap k is at `from + k * tap_step`,
/// product p goes to `to + p * product_step`.
using FilterFunction = void (*)(FilterTransform const&, float const* from, int64_t tap_step, float* to,
                                int64_t product_step);
FilterFunction winograd_filters_avx2(WinogradForm const&);
FilterFunction winograd_filters_avx512(WinogradForm const&);

}  // namespace refactor::kernel
