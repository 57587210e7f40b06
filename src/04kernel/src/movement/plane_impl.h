#pragma once
// Include a `simd/vec_*.h` first. Everything has internal linkage.
#include <cstddef>

namespace refactor::kernel::movement {
namespace {

/// Sixteen columns at a time, so that every row gets a whole cache line before the next one is touched again.
constexpr int64_t kColumns = 16;

/// Whole blocks of sixteen columns and a vector of rows, strides in elements: dst[r][c] = src[c][r]. By itself, so that
/// the addresses of a block stay in registers.
[[gnu::noinline]] void transpose_whole(float* dst, int64_t dst_stride, float const* src, int64_t src_stride,
                                       int64_t rows, int64_t columns) {
    for (int64_t c0 = 0; c0 < columns; c0 += kColumns)
        for (int64_t r = 0; r < rows; r += Vec::width)
#pragma GCC unroll 2
            for (int64_t c = c0; c < c0 + kColumns; c += Vec::width) {
                Vec block[Vec::width];
#pragma GCC unroll 16
                for (int i = 0; i < Vec::width; ++i) block[i] = Vec::load(src + (c + i) * src_stride + r);
                transpose(block);
#pragma GCC unroll 16
                for (int i = 0; i < Vec::width; ++i) block[i].store(dst + (r + i) * dst_stride + c);
            }
}

/// Rows that are a multiple of this many bytes apart share so few sets of the caches that a line of sixteen of them
/// does not stay in L1 (64 sets of 64 bytes) until it is full.
constexpr int64_t kCrowded = 2048;
constexpr int64_t kTile = 64;

/// The same of rows and columns in multiples of `kTile`: each row of a tile of 16 KiB is written at once.
[[gnu::noinline]] void transpose_crowded(float* dst, int64_t dst_stride, float const* src, int64_t src_stride,
                                         int64_t rows, int64_t columns) {
    alignas(64) float tile[kTile * kTile];
    for (int64_t c = 0; c < columns; c += kTile)
        for (int64_t r = 0; r < rows; r += kTile) {
            transpose_whole(tile, kTile, src + c * src_stride + r, src_stride, kTile, kTile);
            for (int64_t i = 0; i < kTile; ++i)
#pragma GCC unroll 8
                for (int64_t k = 0; k < kTile; k += Vec::width)
                    Vec::load(tile + i * kTile + k).store(dst + (r + i) * dst_stride + c + k);
        }
}

/// A block of at most width × width.
[[gnu::noinline]] void transpose_part(float* dst, int64_t dst_stride, float const* src, int64_t src_stride, int rows,
                                      int columns) {
    Vec block[Vec::width];
    for (int c = 0; c < Vec::width; ++c)
        block[c] = c < columns ? Vec::load_first(src + c * src_stride, rows) : Vec::zero();
    transpose(block);
    for (int r = 0; r < rows; ++r) block[r].store_first(dst + r * dst_stride, columns);
}

/// Columns of two elements behind each other: one row takes those at even places, one those at odd places.
void split_pairs(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t columns) {
    auto const* __restrict x = reinterpret_cast<float const*>(src);
    auto* __restrict even = reinterpret_cast<float*>(dst);
    auto* __restrict odd = reinterpret_cast<float*>(dst + dst_stride);
    for (int64_t c = 0; c < columns; ++c) even[c] = x[2 * c], odd[c] = x[2 * c + 1];
}

/// Strides in bytes.
void transpose_plane(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                     int64_t columns) {
    constexpr int64_t kBytes = 4;
    if (rows == 2 && src_stride == 2 * kBytes) return split_pairs(dst, dst_stride, src, columns);
    auto* to = reinterpret_cast<float*>(dst);
    auto const* from = reinterpret_cast<float const*>(src);
    int64_t const to_stride = dst_stride / kBytes, from_stride = src_stride / kBytes;
    int64_t const whole_rows = rows / Vec::width * Vec::width, whole_columns = columns / kColumns * kColumns;
    int64_t const crowded = dst_stride % kCrowded || rows % kTile ? 0 : columns / kTile * kTile;
    transpose_crowded(to, to_stride, from, from_stride, crowded ? rows : 0, crowded);
    transpose_whole(to + crowded, to_stride, from + crowded * from_stride, from_stride, whole_rows,
                    whole_columns - crowded);
    for (int64_t c = 0; c < columns; c += Vec::width)
        for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; r += Vec::width) {
            auto height = rows - r < Vec::width ? rows - r : Vec::width;
            auto width = columns - c < Vec::width ? columns - c : Vec::width;
            transpose_part(to + r * to_stride + c, to_stride, from + c * from_stride + r, from_stride,
                           static_cast<int>(height), static_cast<int>(width));
        }
}

}  // namespace
}  // namespace refactor::kernel::movement
