#include <immintrin.h>
//
#include "cumsum/strip_impl.h"

namespace refactor::kernel {
namespace {

/// Running sums of one vector of neighbours. `kTogether` of them take half of the 32 registers, and more of a row.
struct F32Sums {
    using Element = float;
    using Scalar = double;
    static constexpr int64_t kLanes = 8;
    static constexpr int kTogether = 16;
    __m512d sums = _mm512_setzero_pd();
    void add(float const* x) { sums = _mm512_add_pd(sums, _mm512_cvtps_pd(_mm256_loadu_ps(x))); }
    void store(float* y) const { _mm256_storeu_ps(y, _mm512_cvtpd_ps(sums)); }
};
struct I32Sums {
    using Element = int32_t;
    using Scalar = uint32_t;
    static constexpr int64_t kLanes = 16;
    static constexpr int kTogether = 16;
    __m512i sums = _mm512_setzero_si512();
    void add(int32_t const* x) { sums = _mm512_add_epi32(sums, _mm512_loadu_si512(x)); }
    void store(int32_t* y) const { _mm512_storeu_si512(y, sums); }
};
struct I64Sums {
    using Element = int64_t;
    using Scalar = uint64_t;
    static constexpr int64_t kLanes = 8;
    static constexpr int kTogether = 16;
    __m512i sums = _mm512_setzero_si512();
    void add(int64_t const* x) { sums = _mm512_add_epi64(sums, _mm512_loadu_si512(x)); }
    void store(int64_t* y) const { _mm512_storeu_si512(y, sums); }
};

}  // namespace

void cumsum_strip_avx512(CumSumStrip<float> const& strip) { carry_all<F32Sums>(strip); }
void cumsum_strip_avx512(CumSumStrip<int32_t> const& strip) { carry_all<I32Sums>(strip); }
void cumsum_strip_avx512(CumSumStrip<int64_t> const& strip) { carry_all<I64Sums>(strip); }

}  // namespace refactor::kernel
