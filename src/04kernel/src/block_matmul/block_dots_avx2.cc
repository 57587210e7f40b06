#include "simd/vec_avx2.h"

namespace refactor::kernel {
namespace {

/// Eight bytes, each in a lane of its own.
struct Numbers {
    __m256i v;
};
RG_SIMD Numbers numbers_of(uint8_t const* q) {
    return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(q)))};
}
/// Number `part` of each byte.
template <int bits>
RG_SIMD Vec part_of(Numbers n, int part) {
    __m256i shifted = _mm256_srli_epi32(n.v, part * bits);
    return {_mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32((1 << bits) - 1)))};
}

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "block_matmul/block_dots_impl.h"

namespace refactor::kernel {

BlockDotsFunctions const& block_dots_avx2() { return kFunctions; }

}  // namespace refactor::kernel
