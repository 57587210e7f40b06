#include "simd/vec_avx2.h"
//
#include "movement/plane_impl.h"

namespace refactor::kernel::movement {
namespace {

/// Bytes of one of three planes for each 16 bytes of pixels; 0x80 leaves a zero.
RG_SIMD __m128i triple_order(int plane, int part) {
    alignas(16) signed char order[16];
    for (int i = 0; i < 16; ++i) {
        int at = part * 16 + i;
        order[i] = static_cast<signed char>(at % 3 == plane ? at / 3 : -128);
    }
    return _mm_load_si128(reinterpret_cast<__m128i const*>(order));
}

}  // namespace

// Declared in plane.h, which an ISA file must not include: it brings shared inline functions.
void transpose_plane_avx2(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                          int64_t columns);
void transpose_plane_avx2(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                          int64_t columns) {
    transpose_plane(dst, dst_stride, src, src_stride, rows, columns);
}

int64_t interleave_triples_avx2(uint8_t* dst, uint8_t const* src, int64_t src_stride, int64_t pixels);
int64_t interleave_triples_avx2(uint8_t* dst, uint8_t const* src, int64_t src_stride, int64_t pixels) {
    __m128i order[3][3];
    for (int plane = 0; plane < 3; ++plane)
        for (int part = 0; part < 3; ++part) order[plane][part] = triple_order(plane, part);
    int64_t i = 0;
    for (; i + 16 <= pixels; i += 16, src += 16, dst += 48) {
        __m128i planes[3];
#pragma GCC unroll 3
        for (int plane = 0; plane < 3; ++plane)
            planes[plane] = _mm_loadu_si128(reinterpret_cast<__m128i const*>(src + plane * src_stride));
#pragma GCC unroll 3
        for (int part = 0; part < 3; ++part) {
            __m128i x = _mm_shuffle_epi8(planes[0], order[0][part]), y = _mm_shuffle_epi8(planes[1], order[1][part]);
            x = _mm_or_si128(_mm_or_si128(x, y), _mm_shuffle_epi8(planes[2], order[2][part]));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + part * 16), x);
        }
    }
    return i;
}

}  // namespace refactor::kernel::movement
