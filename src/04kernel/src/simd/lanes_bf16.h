#pragma once
#include "simd/vec_avx512.h"
//
#include "simd/bf16_pairs.h"
#include "simd/held.h"

// The channels of a block of 32 at one position, bf16 in memory and f32 in registers; see `lanes_f32.h`.

namespace refactor::kernel {
namespace {

/// Channels of even numbers, and the others: the low and the high halves of a vector in memory, each one instruction
/// away from a float.
struct EvenOdd {
    static constexpr int width = 2 * Vec::width;
    Vec even, odd;

    RG_SIMD static EvenOdd zero() { return {Vec::zero(), Vec::zero()}; }
    RG_SIMD static EvenOdd set(float x) { return {Vec::set(x), Vec::set(x)}; }
    RG_SIMD static EvenOdd load(uint16_t const* p) { return of(_mm512_loadu_si512(p)); }
    RG_SIMD static EvenOdd of(__m512i pairs) {
        return {{_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))},
                {_mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-0x10000)))}};
    }
    /// Rounded to nearest, denormals to zero.
    RG_SIMD void store(uint16_t* p) const { round_side_by_side(even, odd).store(reinterpret_cast<float*>(p)); }
    /// The first `n` of 32 floats in the order of channels, zeros for the others, whose memory is not touched.
    RG_SIMD static EvenOdd load_first(float const* p, int n) {
        Vec low = Vec::load_first(p, n < Vec::width ? n : Vec::width);
        Vec high = n > Vec::width ? Vec::load_first(p + Vec::width, n - Vec::width) : Vec::zero();
        auto even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        auto odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        return {{_mm512_permutex2var_ps(low.v, even, high.v)}, {_mm512_permutex2var_ps(low.v, odd, high.v)}};
    }
    /// Channels [0, 16) and [16, 32).
    RG_SIMD Vec low() const {
        auto order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        return {_mm512_permutex2var_ps(even.v, order, odd.v)};
    }
    RG_SIMD Vec high() const {
        auto order = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        return {_mm512_permutex2var_ps(even.v, order, odd.v)};
    }
};
struct EvenOddMask {
    Mask even, odd;
};

RG_SIMD EvenOdd operator+(EvenOdd a, EvenOdd b) { return {a.even + b.even, a.odd + b.odd}; }
RG_SIMD EvenOdd operator*(EvenOdd a, Vec b) { return {a.even * b, a.odd * b}; }
RG_SIMD EvenOdd operator/(EvenOdd a, Vec b) { return {a.even / b, a.odd / b}; }
RG_SIMD EvenOdd fma(EvenOdd a, EvenOdd b, EvenOdd c) { return {fma(a.even, b.even, c.even), fma(a.odd, b.odd, c.odd)}; }
RG_SIMD EvenOdd max(Vec a, EvenOdd b) { return {max(a, b.even), max(a, b.odd)}; }
RG_SIMD EvenOdd min(Vec a, EvenOdd b) { return {min(a, b.even), min(a, b.odd)}; }
RG_SIMD EvenOdd select(EvenOddMask mask, EvenOdd a, EvenOdd b) {
    return {select(mask.even, a.even, b.even), select(mask.odd, a.odd, b.odd)};
}
RG_SIMD EvenOdd held(EvenOdd v) { return {held(v.even), held(v.odd)}; }

using Stored = uint16_t;
using Lanes = EvenOdd;
constexpr bool kRounds = true;

RG_SIMD Lanes load_floats(float const* p) { return {Vec::load(p), Vec::load(p + Vec::width)}; }
RG_SIMD void store_floats(Lanes v, float* p) { v.even.store(p), v.odd.store(p + Vec::width); }
RG_SIMD EvenOddMask lanes_of(int n) { return {first_lanes((n + 1) / 2), first_lanes(n / 2)}; }
/// `lanes`: where that is in the vector of its parity.
RG_SIMD Lanes pick(Lanes from, IntVec lanes, int nth) {
    Vec both = {_mm512_permutexvar_ps(lanes.v, (nth & 1 ? from.odd : from.even).v)};
    return {both, both};
}
template <class F>
RG_SIMD Lanes each_vector(Lanes v, F const& f) {
    return {f(v.even), f(v.odd)};
}
template <class F>
RG_SIMD Lanes each_vector(Lanes a, Lanes b, F const& f) {
    return {f(a.even, b.even), f(a.odd, b.odd)};
}

}  // namespace
}  // namespace refactor::kernel
