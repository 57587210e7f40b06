#include "block_matmul/block_bytes_lanes_avx2.h"

namespace refactor::kernel {
namespace {

/// Sums of products, two i16 of each column.
struct Products {
    __m256i v;
    RG_SIMD static Products begin(Ints) { return {_mm256_setzero_si256()}; }
    RG_SIMD void add(Numbers w, Ints x) { v = _mm256_add_epi16(v, _mm256_maddubs_epi16(w.v, x.v)); }
    RG_SIMD Vec end(Ints less) const {
        __m256i sums = _mm256_madd_epi16(v, _mm256_set1_epi16(1));
        return {_mm256_cvtepi32_ps(_mm256_add_epi32(sums, less.v))};
    }
};

constexpr int kVectors = 2, kMostBits = 4;
/// Sums of a run and of all blocks take 8 of 16 registers, weights 2 to 4, an element of A, a mask and ones 3.
constexpr int kRows = 2;
/// Of 4 bits, a word adds two sums of two products of at most 15 * 127: 8 of those fit in i16.
constexpr int64_t kRun = 4;

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "block_matmul/block_bytes_impl.h"

namespace refactor::kernel {

BlockBytesFunctions const& block_bytes_avx2() { return kFunctions; }

}  // namespace refactor::kernel
