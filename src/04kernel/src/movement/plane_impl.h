#pragma once
// Include a `simd/vec_*.h` first. Everything has internal linkage.
#include <cstddef>

namespace refactor::kernel::movement {
namespace {

/// A block of at most width × width: dst[r][c] = src[c][r].
RG_SIMD void transpose_block(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int rows,
                             int columns) {
    Vec block[Vec::width];
    if (rows == Vec::width && columns == Vec::width) {
#pragma GCC unroll 16
        for (int c = 0; c < Vec::width; ++c) block[c] = Vec::load(reinterpret_cast<float const*>(src + c * src_stride));
        transpose(block);
#pragma GCC unroll 16
        for (int r = 0; r < Vec::width; ++r) block[r].store(reinterpret_cast<float*>(dst + r * dst_stride));
        return;
    }
    for (int c = 0; c < Vec::width; ++c)
        block[c] =
            c < columns ? Vec::load_first(reinterpret_cast<float const*>(src + c * src_stride), rows) : Vec::zero();
    transpose(block);
    for (int r = 0; r < rows; ++r) block[r].store_first(reinterpret_cast<float*>(dst + r * dst_stride), columns);
}

/// Columns of two elements behind each other: one row takes those at even places, one those at odd places.
void split_pairs(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t columns) {
    auto const* __restrict x = reinterpret_cast<float const*>(src);
    auto* __restrict even = reinterpret_cast<float*>(dst);
    auto* __restrict odd = reinterpret_cast<float*>(dst + dst_stride);
    for (int64_t c = 0; c < columns; ++c) even[c] = x[2 * c], odd[c] = x[2 * c + 1];
}

/// Sixteen columns at a time, so that every row gets a whole cache line before the next one is touched again.
void transpose_plane(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                     int64_t columns) {
    constexpr int64_t kColumns = 16, kBytes = 4;
    if (rows == 2 && src_stride == 2 * kBytes) return split_pairs(dst, dst_stride, src, columns);
    for (int64_t c0 = 0; c0 < columns; c0 += kColumns)
        for (int64_t r = 0; r < rows; r += Vec::width)
            for (int64_t c = c0; c < columns && c < c0 + kColumns; c += Vec::width) {
                auto height = rows - r < Vec::width ? rows - r : Vec::width;
                auto width = columns - c < Vec::width ? columns - c : Vec::width;
                transpose_block(dst + r * dst_stride + c * kBytes, dst_stride, src + c * src_stride + r * kBytes,
                                src_stride, static_cast<int>(height), static_cast<int>(width));
            }
}

}  // namespace
}  // namespace refactor::kernel::movement
