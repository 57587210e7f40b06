#include "simd/vec_avx512.h"
//
#include "conv/band_pairs_impl.h"
#include "simd/three_parts.h"

namespace refactor::kernel {

void split_band_avx512(BandJob const& j) {
    int64_t const part = j.planes * (j.rows * j.phases * j.columns * Vec::width + j.skip);
    pair_band(
        j, Vec::width, (kParts - 1) * part, [part](auto... row) __attribute__((always_inline)) {
            pair_blocks(
                row..., [part](Vec low, Vec high, float* y)
                            __attribute__((always_inline)) { store_parts(low, high, y, part); });
        });
}

}  // namespace refactor::kernel
