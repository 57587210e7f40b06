#pragma once
// Loops over packed columns, written against `Vec`; include `vec_*.h` first and define `numbers_of`.
#include "block_matmul/block_dots.h"

namespace refactor::kernel {
namespace {

constexpr int W = Vec::width;

/// Sums of rows × columns. Every vector of weights serves all rows, every vector of A all columns.
template <int bits, int rows, int columns>
[[gnu::noinline]] void tile(BlockDots const& t, int64_t row, int64_t column) {
    constexpr int kParts = 8 / bits;
    Vec sum[rows][columns];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < columns; ++j) sum[i][j] = Vec::zero();
    float const* a = t.a + row * t.a_row;
    uint8_t const* q = t.q + column * t.q_column;
    for (int64_t block = 0, chunk = 0; chunk < t.chunks; ++block) {
        Vec scale[columns], offset[columns];
#pragma GCC unroll 2
        for (int j = 0; j < columns; ++j) {
            int64_t at = (column + j) * t.blocks + block;
            scale[j] = Vec::set(t.scales[at]);
            offset[j] = Vec::set(t.scales[at] * -(t.zeros ? t.zeros[at] : t.zero));
        }
        int64_t end = chunk + t.chunks_per_block < t.chunks ? chunk + t.chunks_per_block : t.chunks;
        for (; chunk < end; ++chunk, a += W * kParts, q += W) {
            Numbers packed[columns];
#pragma GCC unroll 2
            for (int j = 0; j < columns; ++j) packed[j] = numbers_of(q + j * t.q_column);
#pragma GCC unroll 4
            for (int part = 0; part < kParts; ++part) {
                Vec w[columns];
#pragma GCC unroll 2
                for (int j = 0; j < columns; ++j) w[j] = fma(part_of<bits>(packed[j], part), scale[j], offset[j]);
#pragma GCC unroll 8
                for (int i = 0; i < rows; ++i) {
                    Vec x = Vec::load(a + i * t.a_row + part * W);
#pragma GCC unroll 2
                    for (int j = 0; j < columns; ++j) sum[i][j] = fma(x, w[j], sum[i][j]);
                }
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < columns; ++j)
            t.y[(row + i) * t.y_row + column + j] =
                refactor::kernel::sum(sum[i][j]) + (t.bias ? t.bias[column + j] : 0);
}

template <int bits, int columns>
RG_SIMD void column_tiles(BlockDots const& t, int64_t column) {
    int64_t row = 0;
    // Unpacked weights serve as many rows as registers allow: 16 sums of 32 registers (AVX-512), 8 of 16.
    constexpr int kRows = W == 16 ? 8 : 4;
    for (; row + kRows <= t.rows; row += kRows) tile<bits, kRows, columns>(t, row, column);
    for (; row < t.rows; ++row) tile<bits, 1, columns>(t, row, column);
}

template <int bits>
void multiply_bits(BlockDots const& t) {
    int64_t column = 0;
    for (; column + 2 <= t.columns; column += 2) column_tiles<bits, 2>(t, column);
    for (; column < t.columns; ++column) column_tiles<bits, 1>(t, column);
}

void multiply(BlockDots const& t) {
    if (t.bits == 2)
        multiply_bits<2>(t);
    else if (t.bits == 4)
        multiply_bits<4>(t);
    else
        multiply_bits<8>(t);
}

void reorder(float const* a, int64_t k, int32_t bits, float* target) {
    int parts = 8 / bits;
    for (int64_t chunk = 0; chunk < k; chunk += W * parts, target += W * parts)
        for (int part = 0; part < parts; ++part)
            for (int i = 0; i < W; ++i) {
                int64_t at = chunk + i * parts + part;
                target[part * W + i] = at < k ? a[at] : 0;
            }
}

constexpr BlockDotsFunctions kFunctions{W, multiply, reorder};

}  // namespace
}  // namespace refactor::kernel
