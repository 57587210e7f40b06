#include <immintrin.h>
//
#include "cumsum/strip_impl.h"

namespace refactor::kernel {
namespace {

/// `kMany` of them, and what is converted, fit the registers.
struct F32Sums {
    using Element = float;
    using Scalar = double;
    static constexpr int64_t kLanes = 8;
    static constexpr int kMany = 8;
    __m512d sums;
    static __mmask8 first(int lanes) { return static_cast<__mmask8>((1 << lanes) - 1); }
    void load_totals(double const* totals) { sums = _mm512_load_pd(totals); }
    void store_totals(double* totals) const { _mm512_store_pd(totals, sums); }
    void add(float const* x) { sums = _mm512_add_pd(sums, _mm512_cvtps_pd(_mm256_loadu_ps(x))); }
    void store(float* y) const { _mm256_storeu_ps(y, _mm512_cvtpd_ps(sums)); }
    void add_first(float const* x, int lanes) {
        sums = _mm512_add_pd(sums, _mm512_cvtps_pd(_mm256_maskz_loadu_ps(first(lanes), x)));
    }
    void store_first(float* y, int lanes) const { _mm256_mask_storeu_ps(y, first(lanes), _mm512_cvtpd_ps(sums)); }
};
struct I32Sums {
    using Element = int32_t;
    using Scalar = uint32_t;
    static constexpr int64_t kLanes = 16;
    static constexpr int kMany = 8;
    __m512i sums;
    static __mmask16 first(int lanes) { return static_cast<__mmask16>((1 << lanes) - 1); }
    void load_totals(uint32_t const* totals) { sums = _mm512_load_si512(totals); }
    void store_totals(uint32_t* totals) const { _mm512_store_si512(totals, sums); }
    void add(int32_t const* x) { sums = _mm512_add_epi32(sums, _mm512_loadu_si512(x)); }
    void store(int32_t* y) const { _mm512_storeu_si512(y, sums); }
    void add_first(int32_t const* x, int lanes) {
        sums = _mm512_add_epi32(sums, _mm512_maskz_loadu_epi32(first(lanes), x));
    }
    void store_first(int32_t* y, int lanes) const { _mm512_mask_storeu_epi32(y, first(lanes), sums); }
};
struct I64Sums {
    using Element = int64_t;
    using Scalar = uint64_t;
    static constexpr int64_t kLanes = 8;
    static constexpr int kMany = 8;
    __m512i sums;
    static __mmask8 first(int lanes) { return static_cast<__mmask8>((1 << lanes) - 1); }
    void load_totals(uint64_t const* totals) { sums = _mm512_load_si512(totals); }
    void store_totals(uint64_t* totals) const { _mm512_store_si512(totals, sums); }
    void add(int64_t const* x) { sums = _mm512_add_epi64(sums, _mm512_loadu_si512(x)); }
    void store(int64_t* y) const { _mm512_storeu_si512(y, sums); }
    void add_first(int64_t const* x, int lanes) {
        sums = _mm512_add_epi64(sums, _mm512_maskz_loadu_epi64(first(lanes), x));
    }
    void store_first(int64_t* y, int lanes) const { _mm512_mask_storeu_epi64(y, first(lanes), sums); }
};

}  // namespace

void cumsum_strip_avx512(CumSumStrip<float> const& strip) { carry_all<F32Sums>(strip); }
void cumsum_strip_avx512(CumSumStrip<int32_t> const& strip) { carry_all<I32Sums>(strip); }
void cumsum_strip_avx512(CumSumStrip<int64_t> const& strip) { carry_all<I64Sums>(strip); }

}  // namespace refactor::kernel
