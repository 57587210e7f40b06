#pragma once
// How sums that lie in memory become rows of Y; part of `integer_tiles_impl.h`. What is the same for all rows of a
// panel stays in registers.

namespace refactor::kernel {
namespace {

/// What the columns of `vectors` vectors of a panel do with a sum.
template <int vectors>
struct PanelTerms {
    Lanes add[vectors];
    ColumnScale scale[vectors];

    RG_SIMD PanelTerms(IntegerBlock const& t, int64_t column, float no_shift) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            add[v] = Lanes::load(t.column_add + column + v * kWidth);
            scale[v] = ColumnScale::of(t, column + v * kWidth, no_shift);
        }
    }
    RG_SIMD Lanes sum(IntegerBlock const& t, int32_t const* sums, int64_t row, int v) const {
        Lanes sum = Lanes::load(sums + v * kWidth) + add[v];
        return t.row_add ? sum + Lanes::set(t.row_add[row]) : sum;
    }
};

/// Stores rows from row `first` on, whose products are at `sums`. `common` is copied, as storing bytes might change it.
template <Finish::Kind kind, int vectors>
[[gnu::noinline]] void store_byte_rows(IntegerBlock const& t, Finish const& common, int32_t const* sums, int64_t rows,
                                       int64_t first, int64_t column) {
    constexpr int kTogether = together(vectors);
    Finish const f = common;
    PanelTerms<vectors> const panel(t, column, 0);
    Packing const packing = Packing::of(f);
    __mmask64 const mask = first_bytes(t.columns - column) & first_bytes(vectors * kWidth);
    __m512 const offset = offset_of(f);
    int64_t const y_row = t.y_row, at = first * y_row + column;
    auto* y = static_cast<uint8_t*>(t.y) + at;
    /// The bytes of rows from row `i` on that fill a vector; behind the last row there are more of it.
    auto packed = [&](int64_t i, int64_t last) __attribute__((always_inline)) {
        __m512i results[4] = {};
#pragma GCC unroll 4
        for (int k = 0; k < kTogether * vectors; ++k) {
            int const v = k % vectors;
            int64_t const row = i + k / vectors < last ? i + k / vectors : last;
            Lanes sum = panel.sum(t, sums + row * kPanel, first + row, v);
            results[k] = round_sum<kind>(t, f, offset, sum, panel.scale[v], at + row * y_row + v * kWidth);
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

template <bool added, int vectors>
[[gnu::noinline]] void store_real_rows(IntegerBlock const& t, Finish const& common, int32_t const* sums, int64_t rows,
                                       int64_t first, int64_t column) {
    Finish const f = common;
    PanelTerms<vectors> const panel(t, column, -0.f);
    bool const bounded = is_bounded(t.tail);
    int64_t at = first * t.y_row + column;
    for (int64_t i = 0; i < rows; ++i, at += t.y_row)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            int64_t const place = at + v * kWidth;
            Lanes sum = panel.sum(t, sums + i * kPanel, first + i, v);
            _mm512_mask_storeu_ps(static_cast<float*>(t.y) + place, panel.scale[v].some,
                                  real_sum<added>(t, f, bounded, sum, panel.scale[v], place));
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
        case Kind::Sloped:
            store_byte_rows<Kind::Sloped, vectors>(t, f, sums, rows, first, column);
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
            if (t.residual)
                store_real_rows<true, vectors>(t, f, sums, rows, first, column);
            else
                store_real_rows<false, vectors>(t, f, sums, rows, first, column);
            break;
    }
    return true;
}

}  // namespace
}  // namespace refactor::kernel
