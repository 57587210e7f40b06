#include "emulated_avx512/avx512.h"
#include "simd/emulation_probe.h"

namespace refactor::kernel {

#if defined(RG_EMULATE_AVX512) || defined(__clang__)  // Clang has macros for what takes an immediate.

char const* differing_emulation(uint32_t) { return nullptr; }

#else
namespace {

struct Bits {
    uint32_t state;
    uint32_t next() {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        return state;
    }
};

/// Random bits, so also infinities, NaNs and denormals; some are small numbers.
__m512i random_bits(Bits& bits) {
    alignas(64) uint32_t x[16];
    for (uint32_t& element : x) element = bits.next();
    return ::_mm512_load_si512(x);
}
__m512 random_floats(Bits& bits) {
    alignas(64) float x[16];
    for (float& element : x) element = static_cast<float>(static_cast<int32_t>(bits.next())) * 1e-7f;
    return ::_mm512_load_ps(x);
}

template <class V>
bool same(V a, V b) {
    return !__builtin_memcmp(&a, &b, sizeof a);
}

/// Random operands, of which `any` are infinities, NaNs and denormals, too, and `near` small integers.
struct Operands {
    __m512 a, b, c, any;
    __m512i x, y, z, near;
    __m256i half;
    __m128i quarter;
    __mmask64 mask;

    explicit Operands(Bits& bits)
        : a(random_floats(bits)),
          b(random_floats(bits)),
          c(random_floats(bits)),
          any(::_mm512_castsi512_ps(random_bits(bits))),
          x(random_bits(bits)),
          y(random_bits(bits)),
          z(random_bits(bits)),
          near(::_mm512_srai_epi32(x, 22)),
          half(::_mm512_castsi512_si256(y)),
          quarter(::_mm512_castsi512_si128(z)),
          mask(static_cast<__mmask64>(bits.next()) << 32 | bits.next()) {}
};

// clang-format off
#define RG_SAME(name, ...) if (!same(::name(__VA_ARGS__), refactor::name(__VA_ARGS__))) return #name

char const* differing_floats(Operands const& o) {
    auto [a, b, c, any, x, y, z, near, half, quarter, mask] = o;
    RG_SAME(_mm512_add_ps, a, any); RG_SAME(_mm512_sub_ps, a, b); RG_SAME(_mm512_mul_ps, a, any); RG_SAME(_mm512_div_ps, a, b);
    RG_SAME(_mm512_max_ps, a, any); RG_SAME(_mm512_max_ps, any, a); RG_SAME(_mm512_min_ps, a, any); RG_SAME(_mm512_min_ps, any, a);
    RG_SAME(_mm512_fmadd_ps, a, b, c); RG_SAME(_mm512_fnmadd_ps, a, b, c); RG_SAME(_mm512_sqrt_ps, ::_mm512_abs_ps(a)); RG_SAME(_mm512_abs_ps, any);
    RG_SAME(_mm512_and_ps, a, any); RG_SAME(_mm512_andnot_ps, a, any); RG_SAME(_mm512_or_ps, a, any); RG_SAME(_mm512_xor_ps, a, any);
    RG_SAME(_mm512_roundscale_ps, a, 8); RG_SAME(_mm512_roundscale_ps, a, 9); RG_SAME(_mm512_roundscale_ps, a, 10); RG_SAME(_mm512_roundscale_ps, a, 11);
    RG_SAME(_mm512_reduce_ps, a, 8); RG_SAME(_mm512_reduce_ps, any, 8);
    RG_SAME(_mm512_scalef_ps, b, a); RG_SAME(_mm512_scalef_ps, a, ::_mm512_roundscale_ps(b, 8));
    if (!same(::_mm512_getmant_ps(a, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src), mantissas_of(a))) return "_mm512_getmant_ps";
    RG_SAME(_mm512_getexp_ps, ::_mm512_abs_ps(a));
    RG_SAME(_mm512_unpacklo_ps, a, b); RG_SAME(_mm512_unpackhi_ps, a, b); RG_SAME(_mm512_shuffle_ps, a, b, 0x44); RG_SAME(_mm512_shuffle_ps, a, b, 0xee);
    RG_SAME(_mm512_shuffle_f32x4, a, b, 0x88); RG_SAME(_mm512_shuffle_f32x4, a, b, 0xdd); RG_SAME(_mm512_shuffle_i64x2, x, y, 0x4e);
    RG_SAME(_mm512_permutexvar_ps, x, a); RG_SAME(_mm512_permutexvar_epi32, x, y);
    RG_SAME(_mm512_reduce_add_ps, a); RG_SAME(_mm512_reduce_max_ps, a); RG_SAME(_mm512_reduce_min_ps, a);
    RG_SAME(_mm512_reduce_add_epi32, x); RG_SAME(_mm512_reduce_max_epi32, x);
    RG_SAME(_mm512_cvtepi32_ps, x); RG_SAME(_mm512_cvtps_epi32, any); RG_SAME(_mm512_cvttps_epi32, any); RG_SAME(_mm512_cvtph_ps, half);
    RG_SAME(_mm512_cvtepi8_epi32, quarter); RG_SAME(_mm512_cvtepu8_epi32, quarter); RG_SAME(_mm512_cvtepi8_epi16, half); RG_SAME(_mm512_cvtepu8_epi16, half); RG_SAME(_mm512_cvtepu16_epi32, half);
    RG_SAME(_mm512_cvtepi32_epi8, x); RG_SAME(_mm512_cvtsepi32_epi8, near);
    return nullptr;
}

char const* differing_integers(Operands const& o) {
    auto [a, b, c, any, x, y, z, near, half, quarter, mask] = o;
    RG_SAME(_mm512_add_epi16, x, y); RG_SAME(_mm512_add_epi32, x, y); RG_SAME(_mm512_sub_epi16, x, y); RG_SAME(_mm512_sub_epi32, x, y); RG_SAME(_mm512_adds_epi16, x, y);
    RG_SAME(_mm512_mullo_epi32, x, y); RG_SAME(_mm512_madd_epi16, x, y); RG_SAME(_mm512_max_epi32, x, y); RG_SAME(_mm512_and_si512, x, y); RG_SAME(_mm512_or_si512, x, y); RG_SAME(_mm512_xor_si512, x, y);
    RG_SAME(_mm512_max_epi8, x, y); RG_SAME(_mm512_max_epu8, x, y); RG_SAME(_mm512_min_epi8, x, y); RG_SAME(_mm512_min_epu8, x, y);
    RG_SAME(_mm512_packs_epi32, near, y); RG_SAME(_mm512_packs_epi16, near, y); RG_SAME(_mm512_packus_epi16, near, y);
    RG_SAME(_mm512_unpacklo_epi8, x, y); RG_SAME(_mm512_unpackhi_epi8, x, y); RG_SAME(_mm512_unpacklo_epi16, x, y); RG_SAME(_mm512_unpackhi_epi16, x, y);
    RG_SAME(_mm512_slli_epi16, x, 2); RG_SAME(_mm512_slli_epi32, x, 23); RG_SAME(_mm512_srai_epi32, x, 6); RG_SAME(_mm512_srli_epi32, x, 4); RG_SAME(_mm512_srl_epi32, x, _mm_cvtsi32_si128(5));
    RG_SAME(_mm512_dpbusd_epi32, z, x, y); RG_SAME(_mm512_dpwssd_epi32, z, x, y);
    RG_SAME(_mm512_inserti32x4, x, quarter, 2); RG_SAME(_mm512_inserti64x4, x, half, 1); RG_SAME(_mm512_extracti32x4_epi32, x, 3); RG_SAME(_mm512_extracti64x4_epi64, x, 1);
    return nullptr;
}

char const* differing_pairs(Operands const& o) {
    auto [a, b, c, any, x, y, z, near, half, quarter, mask] = o;
    RG_SAME(_mm512_permutexvar_epi16, x, y); RG_SAME(_mm512_cvtne2ps_pbh, a, any); RG_SAME(_mm512_cvtne2ps_pbh, any, b);
    auto p = ::_mm512_cvtne2ps_pbh(a, b), q = ::_mm512_cvtne2ps_pbh(b, c);
    RG_SAME(_mm512_dpbf16_ps, c, p, q); RG_SAME(_mm512_dpbf16_ps, a, q, q);
    return nullptr;
}

char const* differing_masked(Operands const& o) {
    auto [a, b, c, any, x, y, z, near, half, quarter, mask] = o;
    auto m16 = static_cast<__mmask16>(mask);
    auto m32 = static_cast<__mmask32>(mask);
    alignas(64) char memory[64], other[64];
    ::_mm512_storeu_si512(memory, x);
    RG_SAME(_mm512_cmp_ps_mask, a, any, _CMP_LT_OQ); RG_SAME(_mm512_cmp_ps_mask, a, any, _CMP_LE_OQ); RG_SAME(_mm512_cmp_ps_mask, a, any, _CMP_GT_OQ);
    RG_SAME(_mm512_cmp_ps_mask, a, any, _CMP_GE_OQ); RG_SAME(_mm512_cmp_ps_mask, any, any, _CMP_EQ_OQ); RG_SAME(_mm512_cmp_ps_mask, any, any, _CMP_ORD_Q); RG_SAME(_mm512_cmp_ps_mask, any, b, _CMP_NLT_UQ); RG_SAME(_mm512_cmp_ps_mask, any, any, _CMP_UNORD_Q);
    RG_SAME(_mm512_movepi8_mask, x); RG_SAME(_mm512_mask_blend_ps, m16, a, b); RG_SAME(_mm512_mask_blend_epi8, mask, x, y); RG_SAME(_mm512_maskz_mov_epi8, mask, x);
    RG_SAME(_mm512_maskz_cvtsepi32_epi8, m16, near); RG_SAME(_mm512_maskz_scalef_ps, m16, b, a); RG_SAME(_mm512_maskz_cvtusepi32_epi8, m16, near);
    RG_SAME(_mm512_mask_add_ps, c, m16, a, b); RG_SAME(_mm512_mask_mul_ps, c, m16, a, b);
    RG_SAME(_mm512_maskz_loadu_ps, m16, memory); RG_SAME(_mm512_maskz_loadu_epi32, m16, memory); RG_SAME(_mm512_mask_loadu_epi8, y, mask, memory);
    RG_SAME(_mm512_maskz_loadu_epi8, mask, memory); RG_SAME(_mm256_maskz_loadu_epi8, m32, memory); RG_SAME(_mm_maskz_loadu_epi8, m16, memory);
    RG_SAME(_mm512_maskz_loadu_epi16, m32, memory); RG_SAME(_mm256_maskz_loadu_epi16, m16, memory);

#define RG_SAME_STORE(name, mask, v)                  \
    __builtin_memcpy(other, memory, sizeof other);    \
    ::name(memory, mask, v), refactor::name(other, mask, v); \
    if (__builtin_memcmp(memory, other, sizeof other)) return #name
    RG_SAME_STORE(_mm512_mask_storeu_ps, m16, a);
    RG_SAME_STORE(_mm512_mask_storeu_epi8, mask, y);
    RG_SAME_STORE(_mm256_mask_storeu_epi8, m32, half);
    RG_SAME_STORE(_mm512_mask_storeu_epi16, m32, y);
    RG_SAME_STORE(_mm_mask_storeu_epi8, m16, quarter);
#undef RG_SAME_STORE
    return nullptr;
}
// clang-format on
#undef RG_SAME

}  // namespace

char const* differing_emulation(uint32_t seed) {
    Bits bits{seed | 1};
    for (int round = 0; round < 50; ++round) {
        Operands operands(bits);
        if (char const* name = differing_floats(operands)) return name;
        if (char const* name = differing_integers(operands)) return name;
        if (char const* name = differing_masked(operands)) return name;
        if (char const* name = differing_pairs(operands)) return name;
    }
    return nullptr;
}
#endif

}  // namespace refactor::kernel
