#include "cumsum/strip.h"

#include <immintrin.h>

namespace refactor::kernel {
namespace {

template <bool exclusive>
void carry(CumSumStrip const& s) {
    constexpr int64_t kLanes = 8;
    auto const* x = s.x;
    auto* y = s.y;
    for (int64_t k = 0; k < s.size; ++k, x += s.step, y += s.step) {
        int64_t i = 0;
        for (; i + kLanes <= s.count; i += kLanes) {
            auto* totals = s.totals + i;
            __m256d low = _mm256_loadu_pd(totals), high = _mm256_loadu_pd(totals + 4);
            __m256d next_low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm_loadu_ps(x + i)));
            __m256d next_high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4)));
            _mm256_storeu_pd(totals, next_low);
            _mm256_storeu_pd(totals + 4, next_high);
            _mm_storeu_ps(y + i, _mm256_cvtpd_ps(exclusive ? low : next_low));
            _mm_storeu_ps(y + i + 4, _mm256_cvtpd_ps(exclusive ? high : next_high));
        }
        for (; i < s.count; ++i) {
            double total = s.totals[i], next = total + static_cast<double>(x[i]);
            s.totals[i] = next;
            y[i] = static_cast<float>(exclusive ? total : next);
        }
    }
}

}  // namespace

void cumsum_strip_avx2(CumSumStrip const& strip) { strip.exclusive ? carry<true>(strip) : carry<false>(strip); }

}  // namespace refactor::kernel
