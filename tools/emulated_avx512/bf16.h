#pragma once
// Vectors of 32 numbers of bf16. Denormals are zero, of operands and of results, whatever MXCSR says; sums round to
// nearest.
#include "lanes.h"

#include <cmath>

namespace refactor {
namespace {

RG_EMULATED uint32_t bits_without_denormal(uint32_t x) { return x & 0x7f800000 ? x : x & 0x80000000; }
RG_EMULATED float float_without_denormal(uint32_t x) {
    x = bits_without_denormal(x);
    float y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}
RG_EMULATED uint32_t bits_of(float x) {
    uint32_t y;
    std::memcpy(&y, &x, sizeof y);
    return y;
}

/// To nearest, ties to even; a NaN becomes quiet.
RG_EMULATED uint16_t rounded_to_bf16(float x) {
    auto bits = bits_without_denormal(bits_of(x));
    if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The second vector comes first.
RG_EMULATED __m512bh _mm512_cvtne2ps_pbh(__m512 high, __m512 low) {
    Elements<float, __m512> x(low), y(high);
    uint16_t z[32];
    for (int i = 0; i < 16; ++i) z[i] = rounded_to_bf16(x.x[i]), z[16 + i] = rounded_to_bf16(y.x[i]);
    __m512bh result;
    std::memcpy(&result, z, sizeof result);
    return result;
}

/// c + the product of the odd elements of a pair + that of the even ones, each step rounded once.
RG_EMULATED __m512 _mm512_dpbf16_ps(__m512 c, __m512bh a, __m512bh b) {
    Elements<uint32_t, __m512bh> x(a), y(b);
    Elements<float, __m512> z(c);
    auto flushed = [](float v) { return float_without_denormal(bits_of(v)); };
    for (int i = 0; i < 16; ++i) {
        auto odd = std::fma(float_without_denormal(x.x[i] & 0xffff0000), float_without_denormal(y.x[i] & 0xffff0000),
                            flushed(z.x[i]));
        z.x[i] =
            flushed(std::fma(float_without_denormal(x.x[i] << 16), float_without_denormal(y.x[i] << 16), flushed(odd)));
    }
    return z.vector();
}

}  // namespace
}  // namespace refactor
