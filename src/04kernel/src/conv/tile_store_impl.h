#pragma once
// How sums of a tile of positions begin and end.
#include "conv/store_impl.h"
#include "conv/tile.h"

namespace refactor::kernel {
namespace {

/// Applies an activation that takes more than a minimum and maximum to a tile that has just been stored.
[[gnu::noinline]] void activate_rows(RowJob const& j, float* y, float const* residual, int rows, int cols) {
    for (int b = 0; b < j.blocks; ++b)
        for (int r = 0; r < rows; ++r) {
            int64_t at = b * j.y_block + r * j.y_row;
            activate_stored(y + at, residual && j.residual_last ? residual + at : nullptr, j.y_step, cols,
                            b + 1 == j.blocks ? j.last_lanes : W, j.activation);
        }
}

/// What a tile adds to: the bias, or what Y holds.
template <int B, int R, int Q>
RG_SIMD void begin(RowJob const& j, float const* y, Vec (&acc)[B][R][Q]) {
    int64_t const y_block = j.y_block, y_row = j.y_row, y_step = j.y_step;
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b) {
        Vec start = !j.bias ? Vec::zero() : Vec::load_first(j.bias + b * W, b + 1 == B ? j.last_lanes : W);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 14
            for (int q = 0; q < Q; ++q) acc[b][r][q] = start;
    }
    if (!j.add) return;
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b)
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 14
            for (int q = 0; q < Q; ++q) acc[b][r][q] = Vec::load(y + b * y_block + r * y_row + q * y_step);
}

/// Applies the epilogue to the sums of a tile and stores them.
template <int B, int R, int Q>
RG_SIMD void store(RowJob const& j, Vec const (&acc)[B][R][Q], float* y, float const* residual) {
    bool const clamp = simple(j.activation.kind);
    // Locals, since stores might alias the job.
    int64_t const y_block = j.y_block, y_row = j.y_row, y_step = j.y_step;
    Range const range(clamp ? j.activation : Activation{});
    Mask const lanes = first_lanes(j.last_lanes);
    auto each = [&](auto&& result) __attribute__((always_inline)) {
#pragma GCC unroll 2
        for (int b = 0; b < B; ++b)
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r)
#pragma GCC unroll 14
                for (int q = 0; q < Q; ++q) {
                    int64_t at = b * y_block + r * y_row + q * y_step;
                    Vec v = result(acc[b][r][q], at);
                    if (b + 1 == B) v = select(lanes, v, Vec::zero());
                    v.store(y + at);
                }
    };
    auto limited = [&](Vec v) __attribute__((always_inline)) { return min(range.high, max(range.low, v)); };
    if (HardSwish::is(j.activation) && !residual) return each(HardSwish(j.activation));
    if (!residual || (j.residual_last && !clamp))
        each([&](Vec v, int64_t) __attribute__((always_inline)) { return limited(v); });
    else if (j.residual_last)
        each([&](Vec v, int64_t at) __attribute__((always_inline)) { return limited(v) + Vec::load(residual + at); });
    else
        each([&](Vec v, int64_t at) __attribute__((always_inline)) { return limited(v + Vec::load(residual + at)); });
    if (!clamp) activate_rows(j, y, residual, R, Q);
}

}  // namespace
}  // namespace refactor::kernel
