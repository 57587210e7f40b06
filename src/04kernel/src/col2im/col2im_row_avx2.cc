#include "col2im/col2im_row.h"

#include <immintrin.h>

namespace refactor::kernel {

namespace {

int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/// to[j] += sum of from[i][j + offset] for j in [begin, end)
void add(Col2ImRow const& r, int64_t offset, int64_t begin, int64_t end, float* to) {
    int64_t j = begin;
    for (; j + 8 <= end; j += 8) {
        __m256 sum = _mm256_loadu_ps(to + j);
        for (int64_t i = 0; i < r.rows; ++i) sum = _mm256_add_ps(sum, _mm256_loadu_ps(r.from[i] + offset + j));
        _mm256_storeu_ps(to + j, sum);
    }
    for (; j < end; ++j) {
        float sum = to[j];
        for (int64_t i = 0; i < r.rows; ++i) sum += r.from[i][offset + j];
        to[j] = sum;
    }
}

void clear(float* to, int64_t count) {
    for (int64_t j = 0; j < count; ++j) to[j] = 0;
}

/// Elements of phase `phase`: in `to`, or where they already lie if a single tap fills them from a single row.
float const* collect(Col2ImRow const& r, int64_t phase, int64_t count, float* to) {
    int64_t taps = 0, last_shift = 0, last_tap = 0;
    for (int64_t t = 0; t < r.taps; ++t) {
        auto begin = r.start + t * r.dilation, shift = floor_div(begin, r.stride);
        if (begin - shift * r.stride == phase) ++taps, last_shift = shift, last_tap = t;
    }
    if (taps == 1 && r.rows == 1 && r.stride > 1 && last_shift <= 0 && count - last_shift <= r.places)
        return r.from[0] + last_tap * r.tap_step - last_shift;
    clear(to, count);
    for (int64_t t = 0; taps && r.rows && t < r.taps; ++t) {
        auto begin = r.start + t * r.dilation, shift = floor_div(begin, r.stride);
        if (begin - shift * r.stride == phase)
            add(r, t * r.tap_step - shift, most(0, shift), least(count, r.places + shift), to);
    }
    return to;
}

/// y[stride · k + i] = from[i][k] for four phases.
void weave_four(float const* const* from, int64_t count, int64_t stride, float* y) {
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        __m128 a = _mm_loadu_ps(from[0] + k), b = _mm_loadu_ps(from[1] + k), c = _mm_loadu_ps(from[2] + k),
               d = _mm_loadu_ps(from[3] + k);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        _mm_storeu_ps(y + k * stride, a), _mm_storeu_ps(y + (k + 1) * stride, b);
        _mm_storeu_ps(y + (k + 2) * stride, c), _mm_storeu_ps(y + (k + 3) * stride, d);
    }
    for (; k < count; ++k)
        for (int i = 0; i < 4; ++i) y[k * stride + i] = from[i][k];
}

void weave_two(float const* a, float const* b, int64_t count, float* y) {
    int64_t k = 0;
    for (; k + 8 <= count; k += 8) {
        __m256 x = _mm256_loadu_ps(a + k), z = _mm256_loadu_ps(b + k);
        __m256 low = _mm256_unpacklo_ps(x, z), high = _mm256_unpackhi_ps(x, z);
        _mm256_storeu_ps(y + 2 * k, _mm256_permute2f128_ps(low, high, 0x20));
        _mm256_storeu_ps(y + 2 * k + 8, _mm256_permute2f128_ps(low, high, 0x31));
    }
    for (; k < count; ++k) y[2 * k] = a[k], y[2 * k + 1] = b[k];
}

}  // namespace

void col2im_row_avx2(Col2ImRow const& r) {
    if (r.stride == 1) {
        collect(r, 0, r.size, r.y);
        return;
    }
    auto room = (r.size + r.stride - 1) / r.stride;
    for (int64_t phase = 0; phase < r.stride && phase < r.size;) {
        // As many phases together as have the same number of elements.
        auto count = (r.size - phase + r.stride - 1) / r.stride;
        auto last = (r.size - phase - 4 + r.stride) / r.stride;
        int together = r.stride == 2 && r.size % 2 == 0 ? 2 : phase + 4 <= r.stride && last == count ? 4 : 1;
        float const* from[4];
        for (int i = 0; i < together; ++i) from[i] = collect(r, phase + i, count, r.scratch + i * room);
        if (together == 4)
            weave_four(from, count, r.stride, r.y + phase);
        else if (together == 2)
            weave_two(from[0], from[1], count, r.y);
        else
            for (int64_t k = 0; k < count; ++k) r.y[k * r.stride + phase] = from[0][k];
        phase += together;
    }
}

}  // namespace refactor::kernel
