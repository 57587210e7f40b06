#include "simd/vec_avx512.h"

namespace refactor::kernel {
namespace {

struct Ints {
    __m512i v;
    RG_SIMD static Ints set(int32_t x) { return {_mm512_set1_epi32(x)}; }
    RG_SIMD static Ints load_bytes(uint8_t const* p) {
        return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)))};
    }
    RG_SIMD int32_t largest() const { return _mm512_reduce_max_epi32(v); }
    RG_SIMD int32_t total() const { return _mm512_reduce_add_epi32(v); }
};
RG_SIMD Ints operator+(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
RG_SIMD Ints max(Ints a, Ints b) { return {_mm512_max_epi32(a.v, b.v)}; }
RG_SIMD Ints as_ints(Vec a) { return {_mm512_castps_si512(a.v)}; }
RG_SIMD Ints rounded(Vec a) { return {_mm512_cvtps_epi32(a.v)}; }
/// Products of the lower i16 of each lane; the upper ones of `a` are 0.
RG_SIMD Ints multiply_low(Ints a, Ints b) { return {_mm512_madd_epi16(a.v, b.v)}; }

/// A dword of each of W columns, or one of its parts.
struct Numbers {
    __m512i v;
    RG_SIMD static Numbers load(uint32_t const* q) { return {_mm512_loadu_si512(q)}; }
    template <int bits>
    RG_SIMD Numbers part(int i) const {
        __m512i shifted = i ? _mm512_srli_epi32(v, static_cast<unsigned>(i * bits)) : v;
        if (bits == 8) return {shifted};
        return {_mm512_and_si512(shifted, _mm512_set1_epi8(static_cast<char>((1 << bits) - 1)))};
    }
};

/// Sums of products.
struct Products {
    __m512i v;
    RG_SIMD static Products begin(Ints less) { return {less.v}; }
    RG_SIMD void add(Numbers w, Ints x) {
        v = _mm512_dpbusd_epi32(v, w.v, x.v);
#ifndef RG_EMULATE_AVX512
        // g++ 12 would move sums between two registers for each, and spill.
        asm("" : "+v"(v));
#endif
    }
    RG_SIMD Vec end(Ints) const { return {_mm512_cvtepi32_ps(v)}; }
};

/// Sixteen elements, saturated, in the order of the parts of dwords.
struct Order {
    __m128i v;
    RG_SIMD explicit Order(int32_t bits)
        : v(bits == 2   ? _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
            : bits == 4 ? _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)
                        : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)) {}
    RG_SIMD void store(Ints const (&x)[1], int8_t* target) const {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm_shuffle_epi8(_mm512_cvtsepi32_epi8(x[0].v), v));
    }
};

constexpr int kVectors = 2, kMostBits = 8;
/// Sums of a block and of all blocks take 24 of 32 registers, weights 4, an element of A and a mask 2.
constexpr int kRows = 6;
/// Whole blocks, of at most 256 numbers.
constexpr int64_t kRun = 64;

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "block_matmul/block_bytes_impl.h"

namespace refactor::kernel {

BlockBytesFunctions const& block_bytes_avx512vnni() { return kFunctions; }

}  // namespace refactor::kernel
