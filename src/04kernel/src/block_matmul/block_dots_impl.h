#pragma once
// Loops over packed columns, written against `Vec`; include `vec_*.h` first and define `words_of`, `first_words_of`,
// `numbers_at` and `spread`.
#include "block_matmul/block_dots.h"

namespace refactor::kernel {
namespace {

constexpr int W = Vec::width;

/// Values of the blocks that the `words` words from `word` on lie in, each in the lanes of its words.
RG_SIMD Vec of_blocks(BlockDots const& t, float const* values, int64_t word) {
    int64_t block = word >> t.block_words;
    if (W >> t.block_words <= 1) return Vec::set(values[block]);
    int64_t left = t.blocks - block, most = W >> t.block_words;
    return spread(Vec::load_first(values + block, static_cast<int>(left < most ? left : most)), t.block_words);
}

/// Sums of rows × columns. Every vector of weights serves all rows, every vector of A all columns. The columns behind
/// these are asked for: they are too many streams for the processor to see where they go.
template <int bits, int rows, int columns>
[[gnu::noinline]] void tile(BlockDots const& t, int64_t row, int64_t column) {
    constexpr int kParts = 32 / bits;
    Vec sum[rows][columns];
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) sum[i][j] = Vec::zero();
    float const* a = t.a + row * t.a_row;
    uint8_t const* q = t.q + column * t.q_column;
    for (int64_t word = 0; word < t.words; word += W, a += W * (kParts + 1), q += W * 4) {
        Words packed[columns];
        int64_t left = t.words - word;
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j)
            packed[j] =
                left >= W ? words_of(q + j * t.q_column) : first_words_of(q + j * t.q_column, static_cast<int>(left));
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) __builtin_prefetch(q + (columns + j) * t.q_column);
        Vec part[rows][columns];
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < columns; ++j) part[i][j] = Vec::zero();
#pragma GCC unroll 16
        for (int p = 0; p < kParts; ++p) {
            Vec w[columns];
#pragma GCC unroll 4
            for (int j = 0; j < columns; ++j) w[j] = numbers_at<bits>(packed[j], p);
#pragma GCC unroll 4
            for (int i = 0; i < rows; ++i) {
                Vec x = Vec::load(a + i * t.a_row + p * W);
#pragma GCC unroll 4
                for (int j = 0; j < columns; ++j) part[i][j] = fma(x, w[j], part[i][j]);
            }
        }
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) {
            int64_t at = (column + j) * t.blocks;
            __builtin_prefetch(t.scales + at + columns * t.blocks + (word >> t.block_words));
            Vec scale = of_blocks(t, t.scales + at, word);
            Vec zero = t.zeros ? of_blocks(t, t.zeros + at, word) : Vec::set(t.zero);
#pragma GCC unroll 4
            for (int i = 0; i < rows; ++i) {
                Vec elements = Vec::load(a + i * t.a_row + kParts * W);
                sum[i][j] = fma(fnma(zero, elements, part[i][j]), scale, sum[i][j]);
            }
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j)
            t.y[(row + i) * t.y_row + column + j] =
                refactor::kernel::sum(sum[i][j]) + (t.bias ? t.bias[column + j] : 0);
}

/// Rows and columns at a time: sums and parts, 16 of 32 registers (AVX-512), 8 of 16 (AVX2). One row has columns enough
/// that they need not wait for each other.
constexpr int kRows = W == 16 ? 4 : 2, kColumns = 2, kColumnsOfRow = 4;

template <int bits>
void multiply_bits(BlockDots const& t) {
    int64_t row = 0;
    for (; row + kRows <= t.rows; row += kRows) {
        int64_t column = 0;
        for (; column + kColumns <= t.columns; column += kColumns) tile<bits, kRows, kColumns>(t, row, column);
        for (; column < t.columns; ++column) tile<bits, kRows, 1>(t, row, column);
    }
    for (; row < t.rows; ++row) {
        int64_t column = 0;
        for (; column + kColumnsOfRow <= t.columns; column += kColumnsOfRow)
            tile<bits, 1, kColumnsOfRow>(t, row, column);
        for (; column < t.columns; ++column) tile<bits, 1, 1>(t, row, column);
    }
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
    int parts = 32 / bits;
    for (int64_t chunk = 0; chunk < k; chunk += W * parts) {
        float* sums = target + W * parts;
        for (int i = 0; i < W; ++i) sums[i] = 0;
        for (int part = 0; part < parts; ++part, target += W)
            for (int i = 0; i < W; ++i) {
                int64_t at = chunk + i * parts + part;
                target[i] = at < k ? a[at] : 0;
                sums[i] += target[i];
            }
        target += W;
    }
}

/// Element `i` of each of `columns` rows, at most W, in the lanes of `to[i]`; `count` of them are there. Those `ahead`
/// of them are asked for: rows are too many for the processor to see that they go on.
RG_SIMD void load_columns(float const* from, int64_t row, int64_t columns, int64_t count, int64_t ahead, Vec (&to)[W]) {
    int n = static_cast<int>(count < W ? count : W);
#pragma GCC unroll 16
    for (int i = 0; i < W; ++i) {
        __builtin_prefetch(from + i * row + ahead);
        to[i] = i >= columns ? Vec::zero() : n == W ? Vec::load(from + i * row) : Vec::load_first(from + i * row, n);
    }
    transpose(to);
}

/// Of a window of W blocks, whose words are taken W at a time.
template <int bits>
void widen_window(BlockDots const& t, int64_t j, int64_t block, int64_t blocks, float* target, int64_t row) {
    constexpr int kParts = 32 / bits;
    int64_t columns = t.columns - j, at = j * t.blocks + block;
    Vec scales[W], zeros[W];
    load_columns(t.scales + at, t.blocks, columns, blocks, W, scales);
    if (t.zeros) load_columns(t.zeros + at, t.blocks, columns, blocks, W, zeros);
    int64_t words = blocks << t.block_words;
    auto const* q = reinterpret_cast<float const*>(t.q + j * t.q_column + (block << t.block_words) * 4);
    for (int64_t first = 0; first < words; first += W) {
        Vec square[W];
        load_columns(q + first, t.q_column / 4, columns, words - first, int64_t{W} << t.block_words, square);
        for (int64_t i = 0; i < W && first + i < words; ++i) {
            int64_t b = (first + i) >> t.block_words;
            Vec scale = scales[b], zero = t.zeros ? zeros[b] : Vec::set(t.zero);
#pragma GCC unroll 16
            for (int p = 0; p < kParts; ++p, target += row)
                ((numbers_at<bits>(words_of(square[i]), p) - zero) * scale).store(target);
        }
    }
}

template <int bits>
void widen_bits(BlockDots const& t, int64_t first, int64_t blocks, float* target) {
    int64_t row = (t.columns + W - 1) / W * W, block = (int64_t{32} << t.block_words) / bits;
    for (int64_t j = 0; j < t.columns; j += W)
        for (int64_t b = 0; b < blocks; b += W)
            widen_window<bits>(t, j, first + b, blocks - b < W ? blocks - b : W, target + b * block * row + j, row);
}

void widen(BlockDots const& t, int64_t first, int64_t blocks, float* target) {
    if (t.bits == 2)
        widen_bits<2>(t, first, blocks, target);
    else if (t.bits == 4)
        widen_bits<4>(t, first, blocks, target);
    else
        widen_bits<8>(t, first, blocks, target);
}

constexpr BlockDotsFunctions kFunctions{W, multiply, reorder, widen};

}  // namespace
}  // namespace refactor::kernel
