#pragma once
// Products of few k, for AVX-512; part of `integer_product_impl.h`.
//
// Where a row takes few products, storing it takes about as long, in other units of the processor. The dwords of a
// panel stay in registers (16 at 16 k, 24 at 24), and rows are computed one after the other: while one is stored, those
// behind it multiply. All dwords of a row have offsets of their own, so that runs may be as short as they are in first
// layers.

namespace refactor::kernel {
namespace {

/// Of `vectors` of the panel from `column` on, behind `skipped` others.
template <int vectors, int depth>
[[gnu::noinline]] int64_t shallow_panel(IntegerBlock const& t, Finish const& f, int64_t column, int skipped = 0) {
    constexpr int kTogether = together(vectors);
    Packing const packing = Packing::of(f);
    Lanes w[depth][vectors], add[vectors];
    __m512 scale[vectors], shift[vectors];
    int64_t places[depth];
    for (int d = 0; d < depth; ++d) places[d] = t.tap_offsets[d / t.depth] + d % t.depth * 4;
    for (int v = 0; v < vectors; ++v) {
        int64_t j = column + v * kWidth;
        add[v] = Lanes::load(t.column_add + j);
        ColumnScale const terms = ColumnScale::of(t, j);
        scale[v] = terms.scale, shift[v] = terms.shift;
        for (int d = 0; d < depth; ++d)
            w[d][v] = Lanes::load(t.b + (column - skipped * kWidth) * depth + (d * kVectors + skipped + v) * kWidth);
    }
    // Numbers of the block are copied, as storing bytes might change them.
    __mmask64 const mask = first_bytes(t.columns - column) & first_bytes(vectors * kWidth);
    bool const rounded = f.rounded, shifted = t.shift != nullptr;
    __m512 const low = f.middle_low.v, high = f.middle_high.v, factor = f.middle_scale.v;
    int64_t const rows = t.rows, a_row = t.a_row, y_row = t.y_row;
    int64_t const* const offsets = t.a_offsets;
    uint8_t const* const first = t.a;
    auto* y = static_cast<uint8_t*>(t.y) + column;
    int64_t row = 0;
    for (; row + kTogether <= rows; row += kTogether, y += kTogether * y_row) {
        Lanes c[kTogether][vectors];
        uint8_t const* a[kTogether];
#pragma GCC unroll 4
        for (int i = 0; i < kTogether; ++i) {
            a[i] = first + (offsets ? offsets[row + i] : (row + i) * a_row);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[i][v] = add[v];
        }
#pragma GCC unroll 9
        for (int d = 0; d < depth; ++d)
#pragma GCC unroll 4
            for (int i = 0; i < kTogether; ++i) {
                Lanes x = Lanes::set(load_dword(a[i] + places[d]));
#pragma GCC unroll 4
                for (int v = 0; v < vectors; ++v) c[i][v] = dot(c[i][v], x, w[d][v]);
            }
        __m512i results[4] = {};
#pragma GCC unroll 4
        for (int k = 0; k < kTogether * vectors; ++k) {
            __m512 value = scaled(c[k / vectors][k % vectors], {scale[k % vectors]}).v;
            if (shifted) value = _mm512_add_ps(value, shift[k % vectors]);
            if (rounded)
                value = _mm512_mul_ps(_mm512_min_ps(_mm512_max_ps(_mm512_roundscale_ps(value, 8), low), high), factor);
            results[k] = _mm512_cvtps_epi32(value);
        }
        store_packed<vectors>(packing.pack(results), mask, y, y_row);
    }
    return row;
}

template <int vectors>
RG_SIMD int64_t shallow_panel(IntegerBlock const& t, Finish const& f, int64_t column) {
    switch (t.taps * t.depth) {
        case 1:
            return shallow_panel<vectors, 1>(t, f, column);
        case 2:
            return shallow_panel<vectors, 2>(t, f, column);
        case 4:
            return shallow_panel<vectors, 4>(t, f, column);
        case 6:
            return shallow_panel<vectors, 6>(t, f, column);
        case 8:
            return shallow_panel<vectors, 8>(t, f, column);
        case 9:  // 3 × 3 windows of up to four channels; registers hold the weights of two vectors
            if constexpr (vectors <= 2) {
                return shallow_panel<vectors, 9>(t, f, column);
            } else {
                shallow_panel<2, 9>(t, f, column);
                return shallow_panel<vectors - 2, 9>(t, f, column + 2 * kWidth, 2);  // no more rows than those
            }
        default:
            return 0;
    }
}

/// Stores rows of a panel and returns how many, none if they are not of this kind.
RG_SIMD int64_t multiply_shallow(IntegerBlock const& t, Finish const& f, int64_t column, int64_t vectors) {
    using Kind = Finish::Kind;
    bool simple = f.kind == Kind::Scaled || f.kind == Kind::Shifted || f.kind == Kind::Rounded;
    if (!simple || t.row_add || t.b_zero || t.row_zero) return 0;
    switch (vectors) {
        case 1:
            return shallow_panel<1>(t, f, column);
        case 2:
            return shallow_panel<2>(t, f, column);
        case 3:
            return shallow_panel<3>(t, f, column);
        default:
            return shallow_panel<4>(t, f, column);
    }
}

}  // namespace
}  // namespace refactor::kernel
