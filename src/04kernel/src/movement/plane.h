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

/// Three planes of bytes as pixels of three bytes. Returns how many, a multiple of 16.
int64_t interleave_triples_avx2(uint8_t* dst, uint8_t const* src, int64_t src_stride, int64_t pixels);

}  // namespace refactor::kernel::movement
