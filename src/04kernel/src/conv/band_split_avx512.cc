#include "simd/vec_avx512.h"
//
#include "conv/band_pairs_impl.h"
#include "simd/three_parts.h"

namespace refactor::kernel {
namespace {

constexpr int64_t kSize = kParts * W;

void split_blocks(PairOfUnits x, float* y, int64_t columns, int64_t first, int64_t step, int64_t limit) {
    pair_blocks<kSize>(x, y, columns, first, step, limit,
                       [](Vec low, Vec high, float* to) __attribute__((always_inline)) {
                           store_parts(low, high, to, W);
                       });
}

}  // namespace

void split_band_avx512(BandJob const& j) { pair_band<split_blocks, kSize>(j); }

void split_pairs_avx512(float const* even, float const* odd, float* pairs, int64_t part_step, int64_t count) {
    for (int64_t i = 0; i < count; i += W) {
        int n = count - i < W ? static_cast<int>(count - i) : W;
        auto some = [&](float const* x) { return x ? Vec::load_first(x + i, n) : Vec::zero(); };
        alignas(64) float parts[kSize];
        store_parts(some(even), some(odd), parts, W);
        for (int part = 0; part < kParts; ++part)
            Vec::load(parts + part * W).store_first(pairs + part * part_step + i, n);
    }
}

}  // namespace refactor::kernel
