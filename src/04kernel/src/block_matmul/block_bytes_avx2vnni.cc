#include "block_matmul/block_bytes_lanes_avx2.h"

namespace refactor::kernel {
namespace {

/// Sums of products.
struct Products {
    __m256i v;
    RG_SIMD static Products begin(Ints less) { return {less.v}; }
    RG_SIMD void add(Numbers w, Ints x) {
        v = _mm256_dpbusd_avx_epi32(v, w.v, x.v);
        // g++ 12 would move sums between two registers for each, and spill.
        asm("" : "+x"(v));
    }
    RG_SIMD Vec end(Ints) const { return {_mm256_cvtepi32_ps(v)}; }
};

constexpr int kVectors = 2, kMostBits = 8;
/// Sums of a block and of all blocks take 8 of 16 registers, weights 4, an element of A and a mask 2.
constexpr int kRows = 2;
/// Whole blocks, of at most 256 numbers.
constexpr int64_t kRun = 64;

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "block_matmul/block_bytes_impl.h"

namespace refactor::kernel {

BlockBytesFunctions const& block_bytes_avx2vnni() { return kFunctions; }

}  // namespace refactor::kernel
