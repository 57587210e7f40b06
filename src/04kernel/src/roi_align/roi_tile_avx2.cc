#include "grid_sample/pairs_impl.h"
#include "roi_align/roi_tile.h"

namespace refactor::kernel {

namespace {

/// to[j] = sum over taps [begin, end) of weight · x[offset + j]
void add_rows(RoiTile const& t, float const* x, int64_t begin, int64_t end, float* to) {
    int64_t j = 0;
    for (; j + 8 <= t.width; j += 8) {
        __m256 sum = _mm256_setzero_ps();
        for (int64_t k = begin; k < end; ++k)
            sum = _mm256_fmadd_ps(_mm256_set1_ps(t.weight[k]), _mm256_loadu_ps(x + t.offset[k] + j), sum);
        _mm256_storeu_ps(to + j, sum);
    }
    if (j == t.width) return;
    __m256i rest = first_of_eight(t.width - j);
    __m256 sum = _mm256_setzero_ps();
    for (int64_t k = begin; k < end; ++k)
        sum = _mm256_fmadd_ps(_mm256_set1_ps(t.weight[k]), _mm256_maskload_ps(x + t.offset[k] + j, rest), sum);
    _mm256_storeu_ps(to + j, sum);
}

}  // namespace

void roi_tile_avx2(RoiTile const& t) {
    float sums[kRoiWidth + 8];
    for (int64_t c = 0; c < t.channels; ++c)
        for (int64_t i = 0; i < t.bins[0]; ++i) {
            add_rows(t, t.x + c * t.plane, t.first[i], t.first[i + 1], sums);
            float* y = t.y + (c * t.bins[0] + i) * t.bins[1];
            auto count = static_cast<int>(t.bins[1]);
            t.columns->masked ? blend_pairs<true>(*t.columns, t.samples, count, sums, y)
                              : blend_pairs<false>(*t.columns, t.samples, count, sums, y);
        }
}

}  // namespace refactor::kernel
