#pragma once
#include "simd/vec.h"

// The channels of a block at one position, f32 in memory. `lanes_bf16.h` offers the same names for blocks of bf16: an
// ISA file includes one of the two and then code written against `Lanes`.

namespace refactor::kernel {
namespace {

using Stored = float;
using Lanes = Vec;
constexpr bool kRounds = false;

/// Floats in the order of the lanes.
RG_SIMD Lanes load_floats(float const* p) { return Vec::load(p); }
RG_SIMD void store_floats(Lanes v, float* p) { v.store(p); }
/// Lanes of the first `n` channels.
RG_SIMD Mask lanes_of(int n) { return first_lanes(n); }
/// In every lane channel `nth` of its group, of which `lanes` are the numbers.
RG_SIMD Lanes pick(Lanes from, IntVec lanes, int /*nth*/) {
#ifdef __AVX512F__
    return {_mm512_permutexvar_ps(lanes.v, from.v)};
#else
    return {_mm256_permutevar8x32_ps(from.v, lanes.v)};
#endif
}
/// `f` of the vectors.
template <class F>
RG_SIMD Lanes each_vector(Lanes v, F const& f) {
    return f(v);
}
template <class F>
RG_SIMD Lanes each_vector(Lanes a, Lanes b, F const& f) {
    return f(a, b);
}

}  // namespace
}  // namespace refactor::kernel
