#pragma once
// How tiles of AVX2 are stored; part of `integer_product_impl.h`.

namespace refactor::kernel {
namespace {

/// Whether no number to be rounded leaves i32.
RG_SIMD bool is_bounded(IntegerTail const& t) {
    float middle = (t.middle_high - t.middle_low) * __builtin_fabsf(t.middle_scale);
    float residual = t.residual == IntegerStore::I32 ? 0 : 512 * __builtin_fabsf(t.residual_scale);
    return middle + residual < 1 << 30;
}

RG_SIMD Finish::Kind kind_of(IntegerBlock const& t, Finish const& f) {
    bool bytes = element_bytes(f.store) == 1;
    if (f.store == IntegerStore::I32) return Finish::Kind::Any;
    if (bytes && !f.rounded && !f.sloped && !t.shift && !t.residual) return Finish::Kind::Scaled;
    bool whole = t.columns % kWidth == 0;
    if (f.sloped && (f.rounded || t.residual || !whole)) return Finish::Kind::Any;
    if (f.sloped && bytes) return Finish::Kind::Sloped;
    if (bytes && !f.rounded && whole) return t.residual ? Finish::Kind::Summed : Finish::Kind::Shifted;
    if (bytes && f.rounded && t.shift && !t.residual && whole) return Finish::Kind::Biased;
    bool rounded = bytes && f.rounded && !t.shift && is_bounded(t.tail);
    if (rounded && !t.residual) return Finish::Kind::Rounded;
    if (rounded && f.residual == IntegerStore::U8) return Finish::Kind::Added;
    if (rounded && f.residual == IntegerStore::I8) return Finish::Kind::AddedSigned;
    if (!bytes && !t.residual && whole) return Finish::Kind::Real;
    return Finish::Kind::Any;
}

constexpr bool is_added(Finish::Kind kind) { return kind == Finish::Kind::Added || kind == Finish::Kind::AddedSigned; }
constexpr bool is_rounded(Finish::Kind kind) {
    return is_added(kind) || kind == Finish::Kind::Rounded || kind == Finish::Kind::Biased;
}
/// Whether numbers to be rounded may leave i32: a scale or a shift may be anything.
constexpr bool is_shifted(Finish::Kind kind) { return kind == Finish::Kind::Shifted || kind == Finish::Kind::Biased; }
constexpr bool is_open(Finish::Kind kind) {
    return kind == Finish::Kind::Scaled || kind == Finish::Kind::Sloped || is_shifted(kind);
}

template <Finish::Kind kind>
RG_SIMD Lanes load_other(uint8_t const* p) {
    return kind == Finish::Kind::AddedSigned ? Lanes::load_signed(p) : Lanes::load_bytes(p);
}

/// What is added to a sum that was scaled and rounded.
RG_SIMD Floats residual_of(Lanes other, Finish const& f) {
    return (to_float(other) - f.residual_zero) * f.residual_scale;
}

/// Two rows of 16 as bytes. What is less than any byte, or NaN, becomes the lower bound.
template <Finish::Kind kind>
RG_SIMD void store_rows(Lanes const* upper, Lanes const* lower, Floats const (&scale)[2], float const* shift,
                        uint8_t const* residual, uint8_t* y, int64_t y_row, Finish const& f) {
    auto words = [&](Lanes const* c, uint8_t const* other) __attribute__((always_inline)) {
        Lanes whole[2];
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
            Floats value = scaled(c[v], scale[v]);
            if (is_rounded(kind)) value = round_middle(value, f);
            if (is_shifted(kind)) value = value + Floats::load(shift + v * kWidth);
            if (kind == Finish::Kind::Sloped)
                value = sloped(shift ? value + Floats::load(shift + v * kWidth) : value, f);
            if (is_added(kind)) value = value + residual_of(load_other<kind>(other + v * kWidth), f);
            // Beyond i32, numbers round to the least one.
            whole[v] = round(is_open(kind) ? min(f.high, value) : value);
        }
        return _mm256_adds_epi16(_mm256_packs_epi32(whole[0].v, whole[1].v), f.word_zero.v);
    };
    __m256i bytes = _mm256_packus_epi16(words(upper, residual), words(lower, residual ? residual + y_row : nullptr));
    bytes = _mm256_min_epu8(_mm256_max_epu8(bytes, f.byte_low.v), f.byte_high.v);
    // Packing works on halves: dwords are columns 0, 8 of the rows, then columns 4, 12.
    bytes = _mm256_permutevar8x32_epi32(_mm256_xor_si256(bytes, f.flip.v), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_castsi256_si128(bytes));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + y_row), _mm256_extracti128_si256(bytes, 1));
}

template <Finish::Kind kind, int rows, int vectors>
RG_SIMD void store_kind(IntegerBlock const& t, Finish const& f, Lanes const (&c)[rows][vectors], int64_t first,
                        int64_t column) {
    int start = 0;
    if constexpr (vectors >= 2 && kind != Finish::Kind::Real && kind != Finish::Kind::Summed)
        if (t.columns - column >= kPanel) {
            static_assert(rows % 2 == 0);
            Floats const scale[2] = {Floats::load(t.scale + column), Floats::load(t.scale + column + kWidth)};
#pragma GCC unroll 3
            for (int i = 0; i < rows; i += 2) {
                int64_t at = (first + i) * t.y_row + column;
                bool shifts = is_shifted(kind) || (kind == Finish::Kind::Sloped && t.shift);
                store_rows<kind>(c[i], c[i + 1], scale, shifts ? t.shift + column : nullptr,
                                 is_added(kind) ? t.residual + at : nullptr, static_cast<uint8_t*>(t.y) + at, t.y_row,
                                 f);
            }
            start = 2;
        }
#pragma GCC unroll 3
    for (int v = 0; v < vectors; ++v) {
        if (v < start) continue;
        int64_t j = column + v * kWidth, left = t.columns - j;
        Floats scale = Floats::load(t.scale + j);
#pragma GCC unroll 12
        for (int i = 0; i < rows; ++i) {
            int64_t at = (first + i) * t.y_row + j;
            Floats value = scaled(c[i][v], scale);
            if (is_rounded(kind) || (kind == Finish::Kind::Real && f.rounded)) value = round_middle(value, f);
            constexpr bool kOpen =
                kind == Finish::Kind::Real || kind == Finish::Kind::Summed || kind == Finish::Kind::Sloped;
            if (is_shifted(kind) || (kOpen && t.shift)) value = value + Floats::load(t.shift + j);
            if (kind == Finish::Kind::Sloped || (kind == Finish::Kind::Real && f.sloped)) value = sloped(value, f);
            if (kind == Finish::Kind::Real) {
                min(f.high, max(f.low, value)).store(static_cast<float*>(t.y) + at);  // NaN stays
                continue;
            }
            bool whole = left >= kWidth;
            if (kind == Finish::Kind::Summed) {
                Floats other = load_residual(t.residual + at * element_bytes(f.residual), f.residual);
                value = value + product(other - f.residual_zero, f.residual_scale);
            }
            if (is_added(kind)) {
                uint8_t const* from = t.residual + at;
                Lanes other =
                    whole ? load_other<kind>(from) : Lanes::load_some(from, left, kind == Finish::Kind::AddedSigned);
                value = value + residual_of(other, f);
            }
            Lanes result = round(min(max(value, f.low), f.high)) + f.y_zero;
            auto* y = static_cast<uint8_t*>(t.y) + at;
            whole ? result.store_bytes(y) : result.store_bytes(y, left);
        }
    }
}

/// One of the frequent combinations.
template <int rows, int vectors>
RG_SIMD void store_tile(IntegerBlock const& t, Finish const& f, Lanes const (&c)[rows][vectors], int64_t first,
                        int64_t column) {
    switch (f.kind) {
        case Finish::Kind::Scaled:
            return store_kind<Finish::Kind::Scaled>(t, f, c, first, column);
        case Finish::Kind::Shifted:
            return store_kind<Finish::Kind::Shifted>(t, f, c, first, column);
        case Finish::Kind::Sloped:
            return store_kind<Finish::Kind::Sloped>(t, f, c, first, column);
        case Finish::Kind::Rounded:
            return store_kind<Finish::Kind::Rounded>(t, f, c, first, column);
        case Finish::Kind::Added:
            return store_kind<Finish::Kind::Added>(t, f, c, first, column);
        case Finish::Kind::AddedSigned:
            return store_kind<Finish::Kind::AddedSigned>(t, f, c, first, column);
        case Finish::Kind::Biased:
            return store_kind<Finish::Kind::Biased>(t, f, c, first, column);
        case Finish::Kind::Summed:
            return store_kind<Finish::Kind::Summed>(t, f, c, first, column);
        default:
            return store_kind<Finish::Kind::Real>(t, f, c, first, column);
    }
}

/// Too few registers to keep a panel.
RG_SIMD int64_t multiply_shallow(IntegerBlock const&, Finish const&, int64_t, int64_t) { return 0; }

}  // namespace
}  // namespace refactor::kernel
