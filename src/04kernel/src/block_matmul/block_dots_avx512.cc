#include "simd/vec_avx512.h"

namespace refactor::kernel {
namespace {

/// Sixteen bytes, each in a lane of its own.
struct Numbers {
    __m512i v;
};
RG_SIMD Numbers numbers_of(uint8_t const* q) {
    return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(q)))};
}
/// Number `part` of each byte.
template <int bits>
RG_SIMD Vec part_of(Numbers n, int part) {
    __m512i shifted = _mm512_srli_epi32(n.v, static_cast<unsigned>(part * bits));
    return {_mm512_cvtepi32_ps(_mm512_and_si512(shifted, _mm512_set1_epi32((1 << bits) - 1)))};
}

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "block_matmul/block_dots_impl.h"

namespace refactor::kernel {

BlockDotsFunctions const& block_dots_avx512() { return kFunctions; }

}  // namespace refactor::kernel
