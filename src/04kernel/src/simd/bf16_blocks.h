#pragma once
// Sixteen neighbouring numbers of bf16 as a vector of floats. Include `vec_avx512.h` first. Internal linkage.
#include <cstdint>

namespace refactor::kernel {
namespace {

RG_SIMD Vec load_bf16(uint16_t const* x) {
    auto words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(x)));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16))};
}
/// Rounded to nearest, denormals to zero.
RG_SIMD void store_bf16(Vec x, uint16_t* y) {
    auto words = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(x.v, x.v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_castsi512_si256(words));
}

}  // namespace
}  // namespace refactor::kernel
