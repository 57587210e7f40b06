#pragma once
#include "movement/strided_copy.h"

namespace refactor::kernel::movement {

/// Planes of 4-byte elements, transposed in registers; see `StridedCopy::PlaneFunction`.
void transpose_plane_avx2(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                          int64_t columns);
void transpose_plane_avx512(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                            int64_t columns);

/// The same of elements of 1, 2 or 8 bytes, in squares; there are at least 16 / bytes rows and as many columns as
/// `least_columns`.
void transpose_squares_avx2(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride,
                            int64_t rows, int64_t columns);
constexpr int64_t least_columns(int bytes) { return bytes == 8 ? 4 : 16; }

/// 2 to 4 planes of elements of 1, 2 or 8 bytes, or 4 of words, as pixels of as many, and the reverse. They return how
/// many pixels were written, in multiples of 16 bytes of a plane.
int64_t interleave_planes_avx2(int bytes, std::byte* dst, std::byte const* src, int64_t src_stride, int64_t planes,
                               int64_t pixels);
int64_t split_pixels_avx2(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t planes,
                          int64_t pixels);

/// Planes of elements of 1 or 2 bytes as pixels of as many, whose number is less than 16, or, of the reverse, than
/// 16 / bytes; at least one pixel.
void interleave_few_avx2(int bytes, std::byte* dst, std::byte const* src, int64_t src_stride, int64_t planes,
                         int64_t pixels);
void split_few_avx2(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t planes,
                    int64_t pixels);

}  // namespace refactor::kernel::movement
