#include <immintrin.h>
//
#include "cumsum/strip_impl.h"

namespace refactor::kernel {
namespace {

/// Running sums of one vector of neighbours. `kTogether` of them take eight of the sixteen registers.
struct F32Sums {
    using Element = float;
    using Scalar = double;
    static constexpr int64_t kLanes = 8;
    static constexpr int kTogether = 4;
    __m256d low = _mm256_setzero_pd(), high = _mm256_setzero_pd();
    void add(float const* x) {
        low = _mm256_add_pd(low, _mm256_cvtps_pd(_mm_loadu_ps(x)));
        high = _mm256_add_pd(high, _mm256_cvtps_pd(_mm_loadu_ps(x + 4)));
    }
    void store(float* y) const { _mm256_storeu_ps(y, _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low))); }
};
struct I32Sums {
    using Element = int32_t;
    using Scalar = uint32_t;
    static constexpr int64_t kLanes = 8;
    static constexpr int kTogether = 8;
    __m256i sums = _mm256_setzero_si256();
    void add(int32_t const* x) {
        sums = _mm256_add_epi32(sums, _mm256_loadu_si256(reinterpret_cast<__m256i const*>(x)));
    }
    void store(int32_t* y) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), sums); }
};
struct I64Sums {
    using Element = int64_t;
    using Scalar = uint64_t;
    static constexpr int64_t kLanes = 4;
    static constexpr int kTogether = 8;
    __m256i sums = _mm256_setzero_si256();
    void add(int64_t const* x) {
        sums = _mm256_add_epi64(sums, _mm256_loadu_si256(reinterpret_cast<__m256i const*>(x)));
    }
    void store(int64_t* y) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), sums); }
};

}  // namespace

void cumsum_strip_avx2(CumSumStrip<float> const& strip) { carry_all<F32Sums>(strip); }
void cumsum_strip_avx2(CumSumStrip<int32_t> const& strip) { carry_all<I32Sums>(strip); }
void cumsum_strip_avx2(CumSumStrip<int64_t> const& strip) { carry_all<I64Sums>(strip); }

}  // namespace refactor::kernel
