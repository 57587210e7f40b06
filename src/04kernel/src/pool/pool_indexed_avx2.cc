#include "pool/pool_indexed.h"
#include "simd/vec_avx2.h"
//
#include "conv/window_impl.h"

namespace refactor::kernel {
namespace {

struct Found {
    Vec best;
    Vec index;
};

/// Takes over what is larger than the best so far; NaN is larger than any number.
RG_SIMD void take(Found& found, Vec x, int64_t position) {
    Mask number{_mm256_cmp_ps(found.best.v, found.best.v, _CMP_ORD_Q)};
    Mask better = Mask{_mm256_cmp_ps(x.v, found.best.v, _CMP_NLE_UQ)} & number;
    Vec at{_mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(position)))};
    found.best = select(better, x, found.best), found.index = select(better, at, found.index);
}

/// Where a window begins in the input, and which of its taps lie inside.
Part part_of(IndexedPool const& p, int axis, int64_t o) {
    return {o * p.stride[axis] - p.pad[axis], p.dilation[axis], p.kernel[axis], p.in[axis]};
}
int64_t start_of(IndexedPool const& p, int axis, int64_t o, Part const& part) {
    return o * p.stride[axis] - p.pad[axis] + part.first * p.dilation[axis];
}

/// `planes` and `rows`: taps inside; `corner`: the first of them.
Found window(IndexedPool const& p, Part const& planes, Part const& rows, int64_t const (&corner)[2], int64_t col) {
    Part cols = part_of(p, 2, col);
    int64_t const left = start_of(p, 2, col, cols);
    int64_t const first = corner[0] * p.position_step[0] + corner[1] * p.position_step[1] + left * p.position_step[2];
    bool const empty = planes.first == planes.end || rows.first == rows.end || cols.first == cols.end;
    Found found{Vec::set(-__builtin_inff()),
                Vec{_mm256_castsi256_ps(_mm256_set1_epi32(empty ? -1 : static_cast<int>(first)))}};
    for (int64_t d = 0; d < planes.end - planes.first; ++d)
        for (int64_t h = 0; h < rows.end - rows.first; ++h) {
            int64_t const plane = corner[0] + d * p.dilation[0], row = corner[1] + h * p.dilation[1];
            float const* x = p.x + ((plane * p.in[1] + row) * p.in[2] + left) * Vec::width;
            int64_t at = plane * p.position_step[0] + row * p.position_step[1] + left * p.position_step[2];
            for (int64_t v = cols.first; v < cols.end; ++v) {
                take(found, Vec::load(x), at);
                x += p.dilation[2] * Vec::width, at += p.dilation[2] * p.position_step[2];
            }
        }
    return found;
}

}  // namespace

void indexed_pool_avx2(IndexedPool const& p) {
    float* y = p.y;
    auto* found = p.found;
    for (int64_t plane = 0; plane < p.out[0]; ++plane)
        for (int64_t row = 0; row < p.out[1]; ++row) {
            Part planes = part_of(p, 0, plane), rows = part_of(p, 1, row);
            int64_t const corner[2] = {start_of(p, 0, plane, planes), start_of(p, 1, row, rows)};
            for (int64_t col = 0; col < p.out[2]; ++col, y += Vec::width, found += Vec::width) {
                Found best = window(p, planes, rows, corner, col);
                best.best.store(y);
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(found), _mm256_castps_si256(best.index.v));
            }
        }
}

void widen_positions_avx2(int32_t const* x, int64_t base, int64_t count, int64_t* y) {
    __m256i const all = _mm256_set1_epi64x(base);
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        __m256i wide = _mm256_cvtepi32_epi64(_mm_loadu_si128(reinterpret_cast<__m128i const*>(x + i)));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), _mm256_add_epi64(wide, all));
    }
    for (; i < count; ++i) y[i] = x[i] + base;
}

}  // namespace refactor::kernel
