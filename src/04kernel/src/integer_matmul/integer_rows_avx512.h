#pragma once
// How sums that lie in memory become rows of Y; part of `integer_tiles_impl.h`. What is the same for all rows of a
// panel stays in registers.

namespace refactor::kernel {
namespace {

/// Of `vectors` vectors of a panel, what its columns add to a sum, and what they multiply it with.
template <int vectors>
struct PanelTerms {
    Lanes add[vectors];
    __m512 scale[vectors], shift[vectors];
    __mmask16 some[vectors];  ///< the columns that there are

    /// Without a shift: `no_shift`.
    RG_SIMD PanelTerms(IntegerBlock const& t, int64_t column, float no_shift) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            int64_t const j = column + v * kWidth, left = t.columns - j;
            some[v] = static_cast<__mmask16>(first_bytes(left < 0 ? 0 : left));
            add[v] = Lanes::load(t.column_add + j), scale[v] = _mm512_loadu_ps(t.scale + j);
            shift[v] = t.shift ? _mm512_maskz_loadu_ps(some[v], t.shift + j) : _mm512_set1_ps(no_shift);
        }
    }
    RG_SIMD Lanes sum(IntegerBlock const& t, int32_t const* sums, int64_t row, int v) const {
        Lanes sum = Lanes::load(sums + v * kWidth) + add[v];
        return t.row_add ? sum + Lanes::set(t.row_add[row]) : sum;
    }
};

/// Stores rows from row `first` on, whose products are at `sums`.
template <Finish::Kind kind, int vectors>
[[gnu::noinline]] void store_byte_rows(IntegerBlock const& t, Finish const& f, int32_t const* sums, int64_t rows,
                                       int64_t first, int64_t column) {
    using Kind = Finish::Kind;
    constexpr int kTogether = together(vectors);
    PanelTerms<vectors> const panel(t, column, 0);
    Packing const packing = Packing::of(f);
    __mmask64 const mask = first_bytes(t.columns - column) & first_bytes(vectors * kWidth);
    bool const whole = t.columns - column >= vectors * kWidth, shifted = t.shift != nullptr;
    __m512 const low = kind == Kind::Summed ? f.low.v : f.middle_low.v;
    __m512 const high = kind == Kind::Summed ? f.high.v : f.middle_high.v;
    __m512 const factor = f.middle_scale.v, other_scale = f.residual_scale.v, other_zero = f.residual_zero.v;
    __m512 const offset = _mm512_mul_ps(_mm512_sub_ps(_mm512_setzero_ps(), other_zero), other_scale);
    int64_t const y_row = t.y_row;
    auto* y = static_cast<uint8_t*>(t.y) + first * y_row + column;
    int64_t const at = first * y_row + column;
    auto rounded = [&](Lanes sum, int v, int64_t place) __attribute__((always_inline)) {
        __m512 value = scaled(sum, {panel.scale[v]}).v;
        if constexpr (kind == Kind::Scaled) return _mm512_cvtps_epi32(value);
        if constexpr (kind == Kind::Shifted) return _mm512_cvtps_epi32(_mm512_add_ps(value, panel.shift[v]));
        if constexpr (kind == Kind::Summed) {
            if (shifted) value = _mm512_add_ps(value, panel.shift[v]);
            __m512 other = _mm512_sub_ps(residual_at(t, f, place, panel.some[v]), other_zero);
            value = _mm512_add_ps(value, product({other}, {other_scale}).v);
            return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(value, low), high));
        }
        value = _mm512_min_ps(_mm512_max_ps(_mm512_roundscale_ps(value, 8), low), high);
        if constexpr (kind == Kind::Rounded) return _mm512_cvtps_epi32(_mm512_mul_ps(value, factor));
        if constexpr (kind == Kind::Biased) return _mm512_cvtps_epi32(_mm512_fmadd_ps(value, factor, panel.shift[v]));
        uint8_t const* residual = t.residual + place;
        __m128i narrow = whole ? _mm_loadu_si128(reinterpret_cast<__m128i const*>(residual))
                               : _mm_maskz_loadu_epi8(panel.some[v], residual);
        __m512i bytes = kind == Kind::AddedSigned ? _mm512_cvtepi8_epi32(narrow) : _mm512_cvtepu8_epi32(narrow);
        value = _mm512_fmadd_ps(value, factor, offset);
        return _mm512_cvtps_epi32(_mm512_fmadd_ps(_mm512_cvtepi32_ps(bytes), other_scale, value));
    };
    /// The bytes of rows from row `i` on that fill a vector; behind the last row there are more of it.
    auto packed = [&](int64_t i, int64_t last) __attribute__((always_inline)) {
        __m512i results[4] = {};
#pragma GCC unroll 4
        for (int k = 0; k < kTogether * vectors; ++k) {
            int const v = k % vectors;
            int64_t const row = i + k / vectors < last ? i + k / vectors : last;
            Lanes sum = panel.sum(t, sums + row * kPanel, first + row, v);
            results[k] = rounded(sum, v, at + row * y_row + v * kWidth);
        }
        return packing.pack(results);
    };
    int64_t i = 0;
    for (; i + kTogether <= rows; i += kTogether)
        store_packed<vectors>(packed(i, i + kTogether), mask, y + i * y_row, y_row);
    if (i == rows) return;
    alignas(64) uint8_t bytes[2 * 64];
    _mm512_store_si512(bytes, packed(i, rows - 1));
    for (int row = 0; i < rows; ++i, ++row)
        _mm512_mask_storeu_epi8(y + i * y_row, mask, _mm512_loadu_si512(bytes + row * vectors * kWidth));
}

template <int vectors>
[[gnu::noinline]] void store_real_rows(IntegerBlock const& t, Finish const& f, int32_t const* sums, int64_t rows,
                                       int64_t first, int64_t column) {
    // -0 changes no number that it is added to.
    PanelTerms<vectors> const panel(t, column, -0.f);
    bool const bounded = t.tail.low > -__builtin_inff() || t.tail.high < __builtin_inff(), rounded = f.rounded;
    bool const added = t.residual != nullptr;
    __m512 const low = f.low.v, high = f.high.v, middle_low = f.middle_low.v, middle_high = f.middle_high.v;
    __m512 const factor = f.middle_scale.v, other_scale = f.residual_scale.v, other_zero = f.residual_zero.v;
    int64_t const y_row = t.y_row;
    int64_t at = first * y_row + column;
    for (int64_t i = 0; i < rows; ++i, at += y_row)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            int64_t const place = at + v * kWidth;
            __m512 value =
                _mm512_mul_ps(_mm512_cvtepi32_ps(panel.sum(t, sums + i * kPanel, first + i, v).v), panel.scale[v]);
            if (rounded) {
                value = _mm512_min_ps(_mm512_max_ps(_mm512_roundscale_ps(value, 8), middle_low), middle_high);
                value = _mm512_fmadd_ps(value, factor, panel.shift[v]);
            } else {
                value = _mm512_add_ps(value, panel.shift[v]);
            }
            if (added) {
                __m512 other = _mm512_sub_ps(residual_at(t, f, place, panel.some[v]), other_zero);
                value = _mm512_fmadd_ps(other, other_scale, value);
            }
            if (bounded) value = _mm512_min_ps(high, _mm512_max_ps(low, value));  // NaN stays
            _mm512_mask_storeu_ps(static_cast<float*>(t.y) + place, panel.some[v], value);
        }
}

/// Returns whether they are of a frequent kind; others are not stored.
template <int vectors>
RG_SIMD bool store_frequent_rows(IntegerBlock const& t, Finish const& f, int32_t const* sums, int64_t rows,
                                 int64_t first, int64_t column) {
    using Kind = Finish::Kind;
    if (t.b_zero || t.row_zero) return false;
    switch (f.kind) {
        case Kind::Any:
            return false;
        case Kind::Scaled:
            store_byte_rows<Kind::Scaled, vectors>(t, f, sums, rows, first, column);
            break;
        case Kind::Shifted:
            store_byte_rows<Kind::Shifted, vectors>(t, f, sums, rows, first, column);
            break;
        case Kind::Rounded:
            store_byte_rows<Kind::Rounded, vectors>(t, f, sums, rows, first, column);
            break;
        case Kind::Added:
            store_byte_rows<Kind::Added, vectors>(t, f, sums, rows, first, column);
            break;
        case Kind::AddedSigned:
            store_byte_rows<Kind::AddedSigned, vectors>(t, f, sums, rows, first, column);
            break;
        case Kind::Biased:
            store_byte_rows<Kind::Biased, vectors>(t, f, sums, rows, first, column);
            break;
        case Kind::Summed:
            store_byte_rows<Kind::Summed, vectors>(t, f, sums, rows, first, column);
            break;
        case Kind::Real:
            store_real_rows<vectors>(t, f, sums, rows, first, column);
            break;
    }
    return true;
}

}  // namespace
}  // namespace refactor::kernel
