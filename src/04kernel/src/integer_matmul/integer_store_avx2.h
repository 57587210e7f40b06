#pragma once
// How tiles of AVX2 are stored; part of `integer_product_impl.h`.

namespace refactor::kernel {
namespace {

RG_SIMD Finish::Kind kind_of(IntegerBlock const& t, Finish const& f) {
    bool bytes = element_bytes(f.store) == 1;
    if (f.store == IntegerStore::I32) return Finish::Kind::Any;
    if (bytes && !f.rounded && !t.shift && !t.residual) return Finish::Kind::Scaled;
    if (bytes && f.rounded && !t.shift && !t.residual) return Finish::Kind::Rounded;
    if (bytes && f.rounded && !t.shift && f.residual == IntegerStore::U8) return Finish::Kind::Added;
    if (bytes && f.rounded && !t.shift && f.residual == IntegerStore::I8) return Finish::Kind::AddedSigned;
    if (!bytes && !t.residual && t.columns % kWidth == 0) return Finish::Kind::Real;
    return Finish::Kind::Any;
}

constexpr bool is_added(Finish::Kind kind) { return kind == Finish::Kind::Added || kind == Finish::Kind::AddedSigned; }

/// A row of 16, two vectors, to bytes, with nothing but a scale, or rounded in between.
template <Finish::Kind kind>
RG_SIMD void store_row(Lanes const* c, Floats const (&scale)[2], uint8_t* y, Finish const& f) {
    Lanes result[2];
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
        Floats value = to_float(c[v]) * scale[v];
        if (kind == Finish::Kind::Rounded)
            value = min(max(round_float(value), f.middle_low), f.middle_high) * f.middle_scale;
        result[v] = round(min(max(value, f.low), f.high)) + f.y_zero;
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), bytes_of(result[0], result[1], f.store == IntegerStore::I8));
}

template <Finish::Kind kind, int rows, int vectors>
RG_SIMD void store_kind(IntegerBlock const& t, Finish const& f, Lanes const (&c)[rows][vectors], int64_t first,
                        int64_t column) {
    int start = 0;
    if constexpr (vectors >= 2 && (kind == Finish::Kind::Scaled || kind == Finish::Kind::Rounded))
        if (t.columns - column >= kPanel) {
            Floats const scale[2] = {Floats::load(t.scale + column), Floats::load(t.scale + column + kWidth)};
#pragma GCC unroll 6
            for (int i = 0; i < rows; ++i)
                store_row<kind>(c[i], scale, static_cast<uint8_t*>(t.y) + (first + i) * t.y_row + column, f);
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
            Floats value = to_float(c[i][v]) * scale;
            if (is_added(kind) || kind == Finish::Kind::Rounded || (kind == Finish::Kind::Real && f.rounded))
                value = min(max(round_float(value), f.middle_low), f.middle_high) * f.middle_scale;
            if (kind == Finish::Kind::Real) {
                if (t.shift) value = value + Floats::load(t.shift + j);
                min(max(value, f.low), f.high).store(static_cast<float*>(t.y) + at);
                continue;
            }
            bool whole = left >= kWidth;
            if (is_added(kind)) {
                constexpr bool kSigned = kind == Finish::Kind::AddedSigned;
                uint8_t const* from = t.residual + at;
                Lanes other = !whole    ? Lanes::load_some(from, left, kSigned)
                              : kSigned ? Lanes::load_signed(from)
                                        : Lanes::load_bytes(from);
                value = value + (to_float(other) - f.residual_zero) * f.residual_scale;
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
        case Finish::Kind::Rounded:
            return store_kind<Finish::Kind::Rounded>(t, f, c, first, column);
        case Finish::Kind::Added:
            return store_kind<Finish::Kind::Added>(t, f, c, first, column);
        case Finish::Kind::AddedSigned:
            return store_kind<Finish::Kind::AddedSigned>(t, f, c, first, column);
        default:
            return store_kind<Finish::Kind::Real>(t, f, c, first, column);
    }
}

/// Too few registers to keep a panel.
RG_SIMD int64_t multiply_shallow(IntegerBlock const&, Finish const&, int64_t, int64_t) { return 0; }

}  // namespace
}  // namespace refactor::kernel
