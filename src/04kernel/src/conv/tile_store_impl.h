#pragma once
// How sums of a tile of positions begin and end.
#include "conv/store_impl.h"
#include "conv/tile.h"
#ifdef RG_BF16_PAIRS
#include "simd/bf16_blocks.h"
#include "simd/bf16_pairs.h"
#endif

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

#ifdef RG_BF16_PAIRS
/// What several lines of code per vector are repeated for.
constexpr int kFewVectors = 8;

/// An activation that is not `simple`, of sums that are rounded behind it.
template <int B, int R, int Q>
[[gnu::noinline]] void activate_sums(RowJob const& j, Vec (&sums)[B][R][Q]) {
    for (int b = 0; b < B; ++b)
        activate_stored(reinterpret_cast<float*>(&sums[b][0][0]), nullptr, W, R * Q, W, j.activation);
}

/// The same for Y and a residual of bf16, whose blocks are two of vectors.
template <int B, int R, int Q>
RG_SIMD void store_rounded(RowJob const& j, Vec const (&acc)[B][R][Q], float* y, float const* residual) {
    bool const clamp = simple(j.activation.kind), half = j.half_block;
    int64_t const y_row = j.y_row, y_step = j.y_step;
    Range const range(clamp ? j.activation : Activation{});
    Mask const lanes = first_lanes(j.last_lanes);
    auto each = [&](auto&& result) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 14
            for (int q = 0; q < Q; ++q) {
                int64_t at = r * y_row + q * y_step;
                Vec v[2] = {result(0, r, q, at), B == 2 ? result(B - 1, r, q, at) : Vec::zero()};
                v[B - 1] = select(lanes, v[B - 1], Vec::zero());
                if (B == 1 && half)
                    store_bf16(v[0], reinterpret_cast<uint16_t*>(y + at));
                else
                    round_to_pairs(v[0], v[1]).store(y + at);
            }
    };
    auto limited = [&](Vec v) __attribute__((always_inline)) { return min(range.high, max(range.low, v)); };
    auto old = [&](int b, int64_t at) __attribute__((always_inline)) {
        return load_bf16(reinterpret_cast<uint16_t const*>(residual + at) + b * W);
    };
    if (clamp && !residual)
        return each([&](int b, int r, int q, int64_t) __attribute__((always_inline)) { return limited(acc[b][r][q]); });
    if (clamp && !j.residual_last)
        return each([&](int b, int r, int q, int64_t at)
                        __attribute__((always_inline)) { return limited(acc[b][r][q] + old(b, at)); });
    if (clamp)
        return each([&](int b, int r, int q, int64_t at)
                        __attribute__((always_inline)) { return limited(acc[b][r][q]) + old(b, at); });
    bool const first = residual && !j.residual_last, last = residual && j.residual_last;
    if constexpr (B * R * Q <= kFewVectors) {
        Vec const alpha = Vec::set(j.activation.alpha), beta = Vec::set(j.activation.beta);
        with_kind(
            j.activation.kind, [&]<ActivationKind kind>() __attribute__((always_inline)) {
                each([&](int b, int r, int q, int64_t at) __attribute__((always_inline)) {
                    Vec v = activate<kind>(first ? acc[b][r][q] + old(b, at) : acc[b][r][q], alpha, beta);
                    return last ? v + old(b, at) : v;
                });
            });
    } else {
        Vec sums[B][R][Q];
        for (int b = 0; b < B; ++b)
            for (int r = 0; r < R; ++r)
                for (int q = 0; q < Q; ++q)
                    sums[b][r][q] = first ? acc[b][r][q] + old(b, r * y_row + q * y_step) : acc[b][r][q];
        activate_sums(j, sums);
        each([&](int b, int r, int q, int64_t at)
                 __attribute__((always_inline)) { return last ? sums[b][r][q] + old(b, at) : sums[b][r][q]; });
    }
}
#endif

/// Applies the epilogue to the sums of a tile and stores them.
template <int B, int R, int Q>
RG_SIMD void store(RowJob const& j, Vec const (&acc)[B][R][Q], float* y, float const* residual) {
#ifdef RG_BF16_PAIRS
    if (j.rounded) return store_rounded(j, acc, y, residual);
#endif
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
