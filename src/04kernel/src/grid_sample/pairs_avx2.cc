#include "grid_sample/pairs_impl.h"

namespace refactor::kernel {

namespace {

/// Neighbours of eight coordinates: the lower index, the distance to it.
struct Neighbours {
    __m256i index;
    __m256 distance;

    RG_PAIRS Neighbours(float const* at, int64_t size, bool border) {
        auto last = static_cast<float>(size - 1);
        __m256 low = _mm256_set1_ps(border ? 0.f : -2.f), high = _mm256_set1_ps(border ? last : last + 2);
        // The second operand wins against NaN.
        __m256 x = _mm256_min_ps(_mm256_max_ps(_mm256_loadu_ps(at), low), high);
        __m256 base = _mm256_floor_ps(x);
        index = _mm256_cvtps_epi32(base), distance = _mm256_sub_ps(x, base);
    }
};

RG_PAIRS __m256i clamp(__m256i i, __m256i last) {
    return _mm256_min_epi32(_mm256_max_epi32(i, _mm256_setzero_si256()), last);
}
RG_PAIRS __m256 equal(__m256i a, __m256i b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }

/// First and second elements, eight of each, in the order of `pair_slot`.
RG_PAIRS void store_pairs(float* to, __m256 first, __m256 second) {
    _mm256_storeu_ps(to, _mm256_unpacklo_ps(first, second));
    _mm256_storeu_ps(to + 8, _mm256_unpackhi_ps(first, second));
}

}  // namespace

void make_pairs_avx2(PairPlaces const& s, PairBlock& block) {
    int const step = pair_step(s.positions);
    __m256 const one = _mm256_set1_ps(1);
    __m256i const first = _mm256_set1_epi32(1), width = _mm256_set1_epi32(static_cast<int>(s.width)),
                  last_row = _mm256_set1_epi32(static_cast<int>(s.height - 1)),
                  last_pair = _mm256_set1_epi32(static_cast<int>(s.width - 2));
    __m256 whole = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    for (int p = 0; p < step; p += 8) {
        Neighbours rows(s.row + p, s.height, s.border), columns(s.column + p, s.width, s.border);
        // A pair that hangs over an edge is moved inside; the element that it shares is then its other one.
        __m256i start = clamp(columns.index, last_pair);
        __m256 inside = equal(columns.index, start), before = equal(_mm256_add_epi32(columns.index, first), start),
               after = equal(columns.index, _mm256_add_epi32(start, first));
        __m256 far = columns.distance, near = _mm256_sub_ps(one, far);
        __m256 weight[2]{_mm256_or_ps(_mm256_and_ps(inside, near), _mm256_and_ps(before, far)),
                         _mm256_or_ps(_mm256_and_ps(inside, far), _mm256_and_ps(after, near))};
        __m256 used[2]{_mm256_or_ps(inside, before), _mm256_or_ps(inside, after)};
        __m256 share = s.share ? _mm256_loadu_ps(s.share + p) : one;
        __m256 part[2]{_mm256_mul_ps(share, _mm256_sub_ps(one, rows.distance)), _mm256_mul_ps(share, rows.distance)};
        for (int k = 0; k < 2; ++k) {
            int i = k * step + p;
            __m256i wanted = k ? _mm256_add_epi32(rows.index, first) : rows.index, row = clamp(wanted, last_row);
            __m256 exists = s.border ? whole : equal(wanted, row);
            __m256i at = _mm256_add_epi32(_mm256_mullo_epi32(row, width), start);
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(block.start + i), at);
            store_pairs(block.weight + 2 * i, _mm256_mul_ps(part[k], weight[0]), _mm256_mul_ps(part[k], weight[1]));
            __m256 counts[2]{_mm256_and_ps(exists, used[0]), _mm256_and_ps(exists, used[1])};
            store_pairs(reinterpret_cast<float*>(block.mask + 2 * i), counts[0], counts[1]);
        }
    }
    __m256i all = _mm256_set1_epi32(-1);
    for (int i = 0; i < 4 * step; i += 8)
        all = _mm256_and_si256(all, _mm256_loadu_si256(reinterpret_cast<__m256i const*>(block.mask + i)));
    block.masked = _mm256_movemask_epi8(all) != -1;
}

void blend_pairs_avx2(PairBlock const& block, int pairs, int positions, float const* x, float* y) {
    if (pairs == 2)
        block.masked ? blend_pairs<true>(block, 2, positions, x, y) : blend_pairs<false>(block, 2, positions, x, y);
    else
        block.masked ? blend_pairs<true>(block, pairs, positions, x, y)
                     : blend_pairs<false>(block, pairs, positions, x, y);
}

void grid_places_avx2(float const* grid, int64_t count, int64_t height, int64_t width, bool align_corners, float* row,
                      float* column) {
    auto place = [&](float n, float size) {
        n = n != n ? -1 : n;
        return align_corners ? (n + 1) / 2 * (size - 1) : ((n + 1) * size - 1) / 2;
    };
    auto h = static_cast<float>(height), w = static_cast<float>(width);
    int64_t i = 0;
    __m256 const one = _mm256_set1_ps(1), half = _mm256_set1_ps(0.5f);
    for (; i + 8 <= count; i += 8) {
        __m256 a = _mm256_loadu_ps(grid + 2 * i), b = _mm256_loadu_ps(grid + 2 * i + 8);
        __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
        __m256 axes[2]{_mm256_shuffle_ps(low, high, 0xdd), _mm256_shuffle_ps(low, high, 0x88)};
        for (int axis = 0; axis < 2; ++axis) {
            __m256 n = axes[axis], size = _mm256_set1_ps(axis ? w : h);
            __m256 none = _mm256_cmp_ps(n, n, _CMP_UNORD_Q);
            n = _mm256_add_ps(_mm256_andnot_ps(none, n), _mm256_andnot_ps(none, one));
            n = align_corners ? _mm256_mul_ps(_mm256_mul_ps(n, half), _mm256_sub_ps(size, one))
                              : _mm256_mul_ps(_mm256_fmsub_ps(n, size, one), half);
            _mm256_storeu_ps((axis ? column : row) + i, n);
        }
    }
    for (; i < count; ++i) column[i] = place(grid[2 * i], w), row[i] = place(grid[2 * i + 1], h);
}

}  // namespace refactor::kernel
