#define RG_QUAD_BYTES 8
#define RG_ROWS 3
#define RG_TILE 2
#include "integer_matmul/integer_lanes_avx2.h"

namespace refactor::kernel {
namespace {

/// Words of the lower (even, flipped) and the upper bytes.
struct Weights {
    Lanes low, high;
};
struct Codes {
    Lanes low, high;
};

RG_SIMD Weights load_weights(int8_t const* p) {
    Lanes both = Lanes::load(p);
    return {{_mm256_and_si256(both.v, _mm256_set1_epi16(0xff))}, {_mm256_srai_epi16(both.v, 8)}};
}
RG_SIMD Lanes broadcast(uint8_t const* p) {
    return {_mm256_castps_si256(_mm256_broadcast_ss(reinterpret_cast<float const*>(p)))};
}
RG_SIMD Codes load_codes(uint8_t const* p) { return {broadcast(p), broadcast(p + 4)}; }
/// c + a · b, quad by quad.
RG_SIMD Lanes dot(Lanes c, Codes a, Weights b) { return dot_words(dot_words(c, a.low, b.low), a.high, b.high); }
RG_SIMD void store_codes(Lanes q, uint8_t* p) {
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(q.v), _mm256_extracti128_si256(q.v, 1));
    __m128i order = _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_shuffle_epi8(words, order));
}

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "recurrent/byte_product_impl.h"

namespace refactor::kernel {

ByteProductFunctions const& byte_product_functions_avx2() { return kFunctions; }

}  // namespace refactor::kernel
