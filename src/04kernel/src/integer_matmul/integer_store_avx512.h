#pragma once
// How tiles of AVX-512 are stored; part of `integer_product_impl.h`.
//
// Results of 64 columns are rounded to i32 and packed with saturation, first to i16, where zero points are added, then
// to bytes, where bounds are applied: rounding keeps the order of numbers, so bounds may follow it. Narrow tiles pack
// several rows at once.
#include "integer_matmul/integer_kinds_avx512.h"

namespace refactor::kernel {
namespace {

RG_SIMD __mmask64 first_bytes(int64_t n) { return n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1; }

/// Four vectors of rounded results as 64 bytes in order.
struct Packing {
    __m512i zero, low, high, order;
    bool is_signed;

    RG_SIMD static Packing of(Finish const& f) {
        auto bound = [&](Floats x) {
            return _mm512_set1_epi8(static_cast<char>(_mm_cvtss_si32(_mm512_castps512_ps128(x.v)) +
                                                      _mm_cvtsi128_si32(_mm512_castsi512_si128(f.y_zero.v))));
        };
        return {_mm512_packs_epi32(f.y_zero.v, f.y_zero.v), bound(f.low), bound(f.high),
                _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), f.store == IntegerStore::I8};
    }
    /// With four channels of each vector in each 128-bit lane, in order.
    RG_SIMD __m512i pack_unpacked(__m512i const (&x)[4]) const {
        __m512i a = _mm512_adds_epi16(_mm512_packs_epi32(x[0], x[1]), zero);
        __m512i b = _mm512_adds_epi16(_mm512_packs_epi32(x[2], x[3]), zero);
        return is_signed ? _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(a, b), low), high)
                         : _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(a, b), low), high);
    }
    RG_SIMD __m512i pack(__m512i const (&x)[4]) const { return _mm512_permutexvar_epi32(order, pack_unpacked(x)); }
};

/// Numbers of the residual from element `at` on, those that `some` names.
RG_SIMD __m512 residual_at(IntegerBlock const& t, Finish const& f, int64_t at, __mmask16 some) {
    if (f.residual == IntegerStore::F32)
        return _mm512_maskz_loadu_ps(some, reinterpret_cast<float const*>(t.residual) + at);
    __m128i narrow = _mm_maskz_loadu_epi8(some, t.residual + at);
    return _mm512_cvtepi32_ps(f.residual == IntegerStore::I8 ? _mm512_cvtepi8_epi32(narrow)
                                                             : _mm512_cvtepu8_epi32(narrow));
}

/// What 16 columns from `j` on multiply their sums with, and add to them.
struct ColumnScale {
    __m512 scale, shift;
    __mmask16 some;  ///< those that there are

    /// Without a shift: `no_shift`.
    RG_SIMD static ColumnScale of(IntegerBlock const& t, int64_t j, float no_shift = 0) {
        int64_t left = t.columns - j;
        auto some = static_cast<__mmask16>(first_bytes(left < 0 ? 0 : left));
        return {_mm512_loadu_ps(t.scale + j),
                t.shift ? _mm512_maskz_loadu_ps(some, t.shift + j) : _mm512_set1_ps(no_shift), some};
    }
};

/// A sum as the number that is rounded to its result; `at` is its place in the residual.
template <Finish::Kind kind>
RG_SIMD __m512i round_sum(IntegerBlock const& t, Finish const& f, __m512 offset, Lanes sum, ColumnScale const& column,
                          int64_t at) {
    __m512 value = scaled(sum, {column.scale}).v;
    if (kind == Finish::Kind::Scaled) return _mm512_cvtps_epi32(value);
    if (kind == Finish::Kind::Shifted) return _mm512_cvtps_epi32(_mm512_add_ps(value, column.shift));
    if (kind == Finish::Kind::Sloped) return _mm512_cvtps_epi32(sloped({_mm512_add_ps(value, column.shift)}, f).v);
    if (kind == Finish::Kind::Summed) {
        if (t.shift) value = _mm512_add_ps(value, column.shift);
        Floats other =
            product({_mm512_sub_ps(residual_at(t, f, at, column.some), f.residual_zero.v)}, f.residual_scale);
        value = _mm512_add_ps(value, other.v);
        return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(value, f.low.v), f.high.v));
    }
    value = _mm512_min_ps(_mm512_max_ps(_mm512_roundscale_ps(value, 8), f.middle_low.v), f.middle_high.v);
    if (kind == Finish::Kind::Rounded) return _mm512_cvtps_epi32(_mm512_mul_ps(value, f.middle_scale.v));
    if (kind == Finish::Kind::Biased) return _mm512_cvtps_epi32(_mm512_fmadd_ps(value, f.middle_scale.v, column.shift));
    __m128i narrow = column.some == 0xffff ? _mm_loadu_si128(reinterpret_cast<__m128i const*>(t.residual + at))
                                           : _mm_maskz_loadu_epi8(column.some, t.residual + at);
    __m512i bytes = kind == Finish::Kind::AddedSigned ? _mm512_cvtepi8_epi32(narrow) : _mm512_cvtepu8_epi32(narrow);
    value = _mm512_fmadd_ps(value, f.middle_scale.v, offset);
    return _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_cvtepi32_ps(bytes), f.residual_scale.v, value));
}
/// What a zero point of the residual adds.
RG_SIMD __m512 offset_of(Finish const& f) {
    return _mm512_mul_ps(_mm512_sub_ps(_mm512_setzero_ps(), f.residual_zero.v), f.residual_scale.v);
}
/// A sum as the f32 that is stored.
template <bool added>
RG_SIMD __m512 real_sum(IntegerBlock const& t, Finish const& f, bool bounded, Lanes sum, ColumnScale const& column,
                        int64_t at) {
    __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(sum.v), column.scale);
    if (f.rounded) {
        value = _mm512_min_ps(_mm512_max_ps(_mm512_roundscale_ps(value, 8), f.middle_low.v), f.middle_high.v);
        value = _mm512_fmadd_ps(value, f.middle_scale.v, column.shift);
    } else {
        value = _mm512_add_ps(value, column.shift);
    }
    if (f.sloped) value = sloped({value}, f).v;
    if (added) {
        __m512 other = _mm512_sub_ps(residual_at(t, f, at, column.some), f.residual_zero.v);
        value = _mm512_fmadd_ps(other, f.residual_scale.v, value);
    }
    return bounded ? _mm512_min_ps(f.high.v, _mm512_max_ps(f.low.v, value)) : value;  // NaN stays
}
RG_SIMD bool is_bounded(IntegerTail const& t) { return t.low > -__builtin_inff() || t.high < __builtin_inff(); }

/// Rows of a tile whose bytes fill a vector.
constexpr int together(int vectors) { return vectors == 1 ? 4 : vectors == 2 ? 2 : 1; }

/// Those rows, `y_row` bytes from each other; `mask`: the columns of each that there are.
template <int vectors>
RG_SIMD void store_packed(__m512i bytes, __mmask64 mask, uint8_t* y, int64_t y_row) {
    if (vectors == 4 && mask == ~__mmask64{0}) {
        _mm512_storeu_si512(y, bytes);
    } else if (vectors > 2) {
        _mm512_mask_storeu_epi8(y, mask, bytes);
    } else if (vectors == 2) {
        _mm256_mask_storeu_epi8(y, static_cast<__mmask32>(mask), _mm512_castsi512_si256(bytes));
        _mm256_mask_storeu_epi8(y + y_row, static_cast<__mmask32>(mask), _mm512_extracti64x4_epi64(bytes, 1));
    } else {
        auto some = static_cast<__mmask16>(mask);
        _mm_mask_storeu_epi8(y, some, _mm512_castsi512_si128(bytes));
        _mm_mask_storeu_epi8(y + y_row, some, _mm512_extracti32x4_epi32(bytes, 1));
        _mm_mask_storeu_epi8(y + 2 * y_row, some, _mm512_extracti32x4_epi32(bytes, 2));
        _mm_mask_storeu_epi8(y + 3 * y_row, some, _mm512_extracti32x4_epi32(bytes, 3));
    }
}

template <Finish::Kind kind, int rows, int vectors>
RG_SIMD void store_bytes(IntegerBlock const& t, Finish const& f, Lanes const (&c)[rows][vectors], int64_t first,
                         int64_t column) {
    constexpr int kTogether = together(vectors);
    static_assert(rows % kTogether == 0);
    Packing packing = Packing::of(f);
    __m512 offset = offset_of(f);
    __mmask64 mask = first_bytes(t.columns - column) & first_bytes(vectors * kWidth);
#pragma GCC unroll 12
    for (int i = 0; i < rows; i += kTogether) {
        __m512i results[4] = {};
#pragma GCC unroll 4
        for (int k = 0; k < kTogether * vectors; ++k) {
            int row = i + k / vectors, v = k % vectors;
            int64_t j = column + v * kWidth;
            results[k] = round_sum<kind>(t, f, offset, c[row][v], ColumnScale::of(t, j), (first + row) * t.y_row + j);
        }
        store_packed<vectors>(packing.pack(results), mask, static_cast<uint8_t*>(t.y) + (first + i) * t.y_row + column,
                              t.y_row);
    }
}

template <bool added, int rows, int vectors>
RG_SIMD void store_reals(IntegerBlock const& t, Finish const& f, Lanes const (&c)[rows][vectors], int64_t first,
                         int64_t column) {
    bool bounded = is_bounded(t.tail);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
        int64_t j = column + v * kWidth, at = first * t.y_row + j;
        // -0 changes no number that it is added to.
        ColumnScale const scale = ColumnScale::of(t, j, -0.f);
#pragma GCC unroll 12
        for (int i = 0; i < rows; ++i, at += t.y_row)
            _mm512_mask_storeu_ps(static_cast<float*>(t.y) + at, scale.some,
                                  real_sum<added>(t, f, bounded, c[i][v], scale, at));
    }
}

/// One of the frequent combinations.
template <int rows, int vectors>
RG_SIMD void store_tile(IntegerBlock const& t, Finish const& f, Lanes const (&c)[rows][vectors], int64_t first,
                        int64_t column) {
    switch (f.kind) {
        case Finish::Kind::Scaled:
            return store_bytes<Finish::Kind::Scaled>(t, f, c, first, column);
        case Finish::Kind::Shifted:
            return store_bytes<Finish::Kind::Shifted>(t, f, c, first, column);
        case Finish::Kind::Sloped:
            return store_bytes<Finish::Kind::Sloped>(t, f, c, first, column);
        case Finish::Kind::Rounded:
            return store_bytes<Finish::Kind::Rounded>(t, f, c, first, column);
        case Finish::Kind::Added:
            return store_bytes<Finish::Kind::Added>(t, f, c, first, column);
        case Finish::Kind::AddedSigned:
            return store_bytes<Finish::Kind::AddedSigned>(t, f, c, first, column);
        case Finish::Kind::Biased:
            return store_bytes<Finish::Kind::Biased>(t, f, c, first, column);
        case Finish::Kind::Summed:
            return store_bytes<Finish::Kind::Summed>(t, f, c, first, column);
        default:
            if (t.residual) return store_reals<true>(t, f, c, first, column);
            return store_reals<false>(t, f, c, first, column);
    }
}

}  // namespace
}  // namespace refactor::kernel
