#include "simd/vec_avx2.h"
//
#include "cumsum/strip_impl.h"

namespace refactor::kernel {
namespace {

__m256i first_of_four(int lanes) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(lanes), _mm256_setr_epi64x(0, 1, 2, 3));
}

/// `kMany` of them, and what is converted, fit the registers.
struct F32Sums {
    using Element = float;
    using Scalar = double;
    static constexpr int64_t kLanes = 8;
    static constexpr int kMany = 4;
    __m256d low, high;
    void load_totals(double const* totals) { low = _mm256_load_pd(totals), high = _mm256_load_pd(totals + 4); }
    void store_totals(double* totals) const { _mm256_store_pd(totals, low), _mm256_store_pd(totals + 4, high); }
    void add(__m128 first, __m128 second) {
        low = _mm256_add_pd(low, _mm256_cvtps_pd(first)), high = _mm256_add_pd(high, _mm256_cvtps_pd(second));
    }
    void add(float const* x) { add(_mm_loadu_ps(x), _mm_loadu_ps(x + 4)); }
    void add_first(float const* x, int lanes) {
        __m256 v = Vec::load_first(x, lanes).v;
        add(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    }
    Vec rounded() const { return {_mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low))}; }
    void store(float* y) const { rounded().store(y); }
    void store_first(float* y, int lanes) const { rounded().store_first(y, lanes); }
};
struct I32Sums {
    using Element = int32_t;
    using Scalar = uint32_t;
    static constexpr int64_t kLanes = 8;
    static constexpr int kMany = 8;
    __m256i sums;
    void load_totals(uint32_t const* totals) { sums = _mm256_load_si256(reinterpret_cast<__m256i const*>(totals)); }
    void store_totals(uint32_t* totals) const { _mm256_store_si256(reinterpret_cast<__m256i*>(totals), sums); }
    void add(int32_t const* x) {
        sums = _mm256_add_epi32(sums, _mm256_loadu_si256(reinterpret_cast<__m256i const*>(x)));
    }
    void store(int32_t* y) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), sums); }
    void add_first(int32_t const* x, int lanes) {
        sums = _mm256_add_epi32(sums, _mm256_maskload_epi32(x, _mm256_castps_si256(first_lanes(lanes).m)));
    }
    void store_first(int32_t* y, int lanes) const {
        Vec{_mm256_castsi256_ps(sums)}.store_first(reinterpret_cast<float*>(y), lanes);
    }
};
struct I64Sums {
    using Element = int64_t;
    using Scalar = uint64_t;
    static constexpr int64_t kLanes = 4;
    static constexpr int kMany = 8;
    __m256i sums;
    void load_totals(uint64_t const* totals) { sums = _mm256_load_si256(reinterpret_cast<__m256i const*>(totals)); }
    void store_totals(uint64_t* totals) const { _mm256_store_si256(reinterpret_cast<__m256i*>(totals), sums); }
    void add(int64_t const* x) {
        sums = _mm256_add_epi64(sums, _mm256_loadu_si256(reinterpret_cast<__m256i const*>(x)));
    }
    void store(int64_t* y) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), sums); }
    void add_first(int64_t const* x, int lanes) {
        auto const* from = reinterpret_cast<long long const*>(x);
        sums = _mm256_add_epi64(sums, _mm256_maskload_epi64(from, first_of_four(lanes)));
    }
    void store_first(int64_t* y, int lanes) const {
        Vec{_mm256_castsi256_ps(sums)}.store_first(reinterpret_cast<float*>(y), 2 * lanes);
    }
};

}  // namespace

void cumsum_strip_avx2(CumSumStrip<float> const& strip) { carry_all<F32Sums>(strip); }
void cumsum_strip_avx2(CumSumStrip<int32_t> const& strip) { carry_all<I32Sums>(strip); }
void cumsum_strip_avx2(CumSumStrip<int64_t> const& strip) { carry_all<I64Sums>(strip); }

}  // namespace refactor::kernel
