#pragma once
// AVX-512 (F, BW, DQ, VL, VNNI, VBMI, BF16) in AVX2: read before every file for AVX-512 of a build with
// RG_EMULATE_AVX512, whose tests so reach these files on a processor that has only AVX2. It offers what they use.
//
// The names are those of <immintrin.h> in `namespace refactor`, where they are found before the global ones; a vector
// is handled as its halves where the instruction works lane by lane, and as an array where it does not. Results are
// those of the instructions to the bit. What a cast leaves undefined is filled with 0xcd, loads and stores that want an
// aligned address trap on another, and masked ones leave the memory of the other lanes alone.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <immintrin.h>

#ifndef __AVX512F__
#define RG_EMULATE_AVX512 1
#define __AVX512F__ 1
#define __AVX512BF16__ 1
#define __AVX512BW__ 1
#define __AVX512DQ__ 1
#define __AVX512VL__ 1
#define __AVX512VNNI__ 1
#endif

// A vector as an argument of a template loses the alignment of its type, which nothing here relies on.
#pragma GCC diagnostic ignored "-Wignored-attributes"
#define RG_EMULATED [[gnu::always_inline, maybe_unused]] inline

// Without optimisation they are macros.
#undef _mm512_cmp_pd_mask
#undef _mm512_cmp_ps_mask
#undef _mm512_extracti32x4_epi32
#undef _mm512_extracti64x4_epi64
#undef _mm512_getmant_pd
#undef _mm512_getmant_ps
#undef _mm512_inserti32x4
#undef _mm512_inserti64x4
#undef _mm512_mask_cmp_pd_mask
#undef _mm512_mask_cmp_ps_mask
#undef _mm512_range_ps
#undef _mm512_reduce_ps
#undef _mm512_roundscale_pd
#undef _mm512_roundscale_ps
#undef _mm512_setr_epi32
#undef _mm512_setr_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_shuffle_f64x2
#undef _mm512_shuffle_i64x2
#undef _mm512_shuffle_ps
#undef _mm512_slli_epi16
#undef _mm512_slli_epi32
#undef _mm512_slli_epi64
#undef _mm512_srai_epi32
#undef _mm512_srli_epi32

#include "bf16.h"
#include "floats.h"
#include "integers.h"
#include "masked.h"
//
#include "doubles.h"
#include "masked_doubles.h"

#ifdef RG_EMULATE_AVX512
// Its arguments have types of the global namespace, where it would be found as well.
#define _mm512_getmant_pd(a, interval, sign) mantissas_of(a)
#define _mm512_getmant_ps(a, interval, sign) mantissas_of(a)
#endif
