#pragma once
// `RowProduct`, written against `Vec`; include `vec_*.h` first. RG_AHEAD: elements from what is multiplied to what is
// asked for.
#include "recurrent/row_product.h"

namespace refactor::kernel {
namespace {

constexpr int kWidth = Vec::width, kVectors = 4, kPanel = kWidth * kVectors;
constexpr int kLine = 16;  ///< elements of a line of the caches
constexpr int kSets = 2;   ///< of sums, which take turns, so that none waits for the one before it

void multiply(int64_t panels, int64_t depth, float const* h, float const* r, float* y) {
    for (int64_t j = 0; j < panels; ++j, y += kPanel) {
        Vec sums[kSets][kVectors];
#pragma GCC unroll 2
        for (int set = 0; set < kSets; ++set)
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) sums[set][v] = Vec::zero();
        auto add = [&](int64_t row, int set) __attribute__((always_inline)) {
            Vec x = Vec::set(h[row]);
            for (int v = 0; v < kPanel; v += kLine) __builtin_prefetch(r + RG_AHEAD + v);
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) add_product(sums[set][v], x, Vec::load(r + v * kWidth));
            r += kPanel;
        };
        int64_t row = 0;
        for (; row + kSets <= depth; row += kSets)
#pragma GCC unroll 2
            for (int set = 0; set < kSets; ++set) add(row + set, set);
        for (; row < depth; ++row) add(row, 0);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) (sums[0][v] + sums[1][v]).store(y + v * kWidth);
    }
}

}  // namespace
}  // namespace refactor::kernel
