#pragma once
// Loops of the integer product, written against `Lanes` and `dot`; include `integer_lanes_*.h`, define `dot`, RG_GROUP
// (k in a dword) and RG_ROWS × RG_VECTORS, the register tile: AVX-512 6 × 4 (24 of 32 registers accumulate, 4 hold B,
// 1 A), AVX2 6 × 2 (12 of 16, 2, 1, and one for products).
#include "integer_matmul/integer_product.h"

namespace refactor::kernel {
namespace {

constexpr int kWidth = Lanes::width, kRows = RG_ROWS, kVectors = RG_VECTORS, kPanel = kWidth * kVectors;

/// What is done with sums, the same for all of a block.
struct Finish {
    IntegerStore store, residual;
    bool rounded;
    /// Frequent combinations, for which the tile stores without asking again.
    enum class Kind : uint8_t {
        Any,
        Scaled,   ///< to bytes, nothing but a scale
        Added,    ///< to bytes, rounded, then a residual of u8
        Shifted,  ///< to f32, rounded, then shifted
    } kind;
    Floats low, high;  ///< bytes: bounds before the zero point is added
    Floats middle_low, middle_high, middle_scale, residual_scale, residual_zero;
    Lanes y_zero;
};

RG_SIMD Finish finish_of(IntegerTail const& t) {
    float low = t.low, high = t.high;
    if (t.store == IntegerStore::U8 || t.store == IntegerStore::I8) {
        float least = static_cast<float>((t.store == IntegerStore::I8 ? -128 : 0) - t.y_zero);
        low = low > least ? low : least, high = high < least + 255 ? high : least + 255;
        // Both bounds may lie beyond the type's.
        if (low > least + 255) low = least + 255;
        if (high < least) high = least;
    }
    return {t.store,
            t.residual,
            t.rounded,
            Finish::Kind::Any,
            Floats::set(low),
            Floats::set(high),
            Floats::set(t.middle_low),
            Floats::set(t.middle_high),
            Floats::set(t.middle_scale),
            Floats::set(t.residual_scale),
            Floats::set(static_cast<float>(t.residual_zero)),
            Lanes::set(t.y_zero)};
}

RG_SIMD int element_bytes(IntegerStore store) { return store == IntegerStore::U8 || store == IntegerStore::I8 ? 1 : 4; }

RG_SIMD Floats load_residual(uint8_t const* p, IntegerStore type) {
    if (type == IntegerStore::F32) return Floats::load(reinterpret_cast<float const*>(p));
    return to_float(type == IntegerStore::U8 ? Lanes::load_bytes(p) : Lanes::load_signed(p));
}

/// `shift` and `residual` are null where there is none.
RG_SIMD void store_whole(Lanes sum, float const* scale, float const* shift, uint8_t const* residual, void* y,
                         Finish const& f) {
    if (f.store == IntegerStore::I32) return sum.store(y);
    Floats value = to_float(sum) * Floats::load(scale);
    if (f.rounded) value = min(max(round_float(value), f.middle_low), f.middle_high) * f.middle_scale;
    if (shift) value = value + Floats::load(shift);
    if (residual) value = value + (load_residual(residual, f.residual) - f.residual_zero) * f.residual_scale;
    value = min(max(value, f.low), f.high);
    if (f.store == IntegerStore::F32) return value.store(y);
    (round(value) + f.y_zero).store_bytes(y);
}

RG_SIMD void copy_bytes(uint8_t* target, uint8_t const* source, int64_t n) {
    for (int64_t i = 0; i < n; ++i) target[i] = source[i];
}

/// The first `n` lanes.
[[gnu::noinline]] void store_some(Lanes sum, float const* scale, float const* shift, uint8_t const* residual,
                                  uint8_t* y, int64_t n, Finish const& f) {
    alignas(64) uint8_t whole[kWidth * 4], other[kWidth * 4] = {};
    alignas(64) float shifts[kWidth] = {};
    if (shift)
        for (int64_t i = 0; i < n; ++i) shifts[i] = shift[i];
    if (residual) copy_bytes(other, residual, n * element_bytes(f.residual));
    store_whole(sum, scale, shift ? shifts : nullptr, residual ? other : nullptr, whole, f);
    copy_bytes(y, whole, n * element_bytes(f.store));
}

/// Stores lanes of which `left` are real; `at` counts elements from the first of Y and residual.
template <class Block>
RG_SIMD void store_lanes(Block const& b, Lanes sum, int64_t column, int64_t at, int64_t left, Finish const& f) {
    float const *scale = b.scale + column, *shift = b.shift ? b.shift + column : nullptr;
    uint8_t const* residual = b.residual ? b.residual + at * element_bytes(f.residual) : nullptr;
    auto* y = static_cast<uint8_t*>(b.y) + at * element_bytes(f.store);
    if (left >= kWidth) return store_whole(sum, scale, shift, residual, y, f);
    if (left > 0) store_some(sum, scale, shift, residual, y, left, f);
}

RG_SIMD int32_t load_dword(uint8_t const* p) {
    int32_t value;
    __builtin_memcpy(&value, p, 4);
    return value;
}

#if RG_VECTORS == 4
/// As below, for AVX-512 and whole vectors of bytes, two or four at once.
template <Finish::Kind kind, int rows, int vectors>
RG_SIMD void store_panel(IntegerBlock const& t, Finish const& f, Lanes const (&c)[rows][vectors], int64_t first,
                         int64_t column) {
    __m512i order = packed_order();
    bool is_signed = f.store == IntegerStore::I8;
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
        int64_t at = (first + i) * t.y_row + column;
        Lanes results[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            int64_t j = column + v * kWidth;
            Floats value = to_float(c[i][v] + Lanes::load(t.column_add + j)) * Floats::load(t.scale + j);
            if (kind == Finish::Kind::Added) {
                value = min(max(round_float(value), f.middle_low), f.middle_high) * f.middle_scale;
                Lanes other = Lanes::load_bytes(t.residual + at + v * kWidth);
                value = value + (to_float(other) - f.residual_zero) * f.residual_scale;
            }
            results[v] = round(min(max(value, f.low), f.high)) + f.y_zero;
        }
        store_packed(results, order, is_signed, static_cast<uint8_t*>(t.y) + at);
    }
}
#endif

template <Finish::Kind kind, int rows, int vectors>
RG_SIMD void store_tile(IntegerBlock const& t, Finish const& f, Lanes const (&c)[rows][vectors], int64_t first,
                        int64_t column) {
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
        int64_t j = column + v * kWidth, left = t.columns - j;
        Lanes add = Lanes::load(t.column_add + j);
        Floats scale = Floats::load(t.scale + j);
        Floats shift = kind == Finish::Kind::Shifted ? Floats::load(t.shift + j) : f.low;
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            int64_t at = (first + i) * t.y_row + j;
            Floats value = to_float(c[i][v] + add) * scale;
            if (kind != Finish::Kind::Scaled)
                value = min(max(round_float(value), f.middle_low), f.middle_high) * f.middle_scale;
            if (kind == Finish::Kind::Shifted) {
                min(max(value + shift, f.low), f.high).store(static_cast<float*>(t.y) + at);
                continue;
            }
            bool whole = left >= kWidth;
            if (kind == Finish::Kind::Added) {
                Lanes other = whole ? Lanes::load_bytes(t.residual + at) : Lanes::load_bytes(t.residual + at, left);
                value = value + (to_float(other) - f.residual_zero) * f.residual_scale;
            }
            Lanes result = round(min(max(value, f.low), f.high)) + f.y_zero;
            auto* y = static_cast<uint8_t*>(t.y) + at;
            whole ? result.store_bytes(y) : result.store_bytes(y, left);
        }
    }
}

/// rows × vectors sums of a panel, from row `first` and column `column` of the block on.
template <int rows, int vectors>
[[gnu::noinline]] void tile(IntegerBlock const& t, Finish const& f, int64_t first, int64_t column) {
    uint8_t const* a[rows];
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) a[i] = t.a + (t.a_offsets ? t.a_offsets[first + i] : (first + i) * t.a_row);
    int32_t const* b = t.b + column * t.taps * t.depth;
    Lanes c[rows][vectors];
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) c[i][v] = Lanes::zero();
    for (int64_t tap = 0; tap < t.taps; ++tap) {
        uint8_t const* x[rows];
        int64_t offset = t.tap_offsets[tap];
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) x[i] = a[i] + offset;
        for (int64_t d = 0; d < t.depth; ++d, b += kPanel) {
            Lanes y[vectors];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) y[v] = Lanes::load(b + v * kWidth);
#pragma GCC unroll 6
            for (int i = 0; i < rows; ++i) {
                Lanes w = Lanes::set(load_dword(x[i] + 4 * d));
#pragma GCC unroll 4
                for (int v = 0; v < vectors; ++v) c[i][v] = dot(c[i][v], w, y[v]);
            }
        }
    }
    int64_t left = t.columns - column;
#if RG_VECTORS == 4
    if constexpr (vectors % 2 == 0) {
        if (f.kind == Finish::Kind::Scaled && left >= vectors * kWidth)
            return store_panel<Finish::Kind::Scaled>(t, f, c, first, column);
        if (f.kind == Finish::Kind::Added && left >= vectors * kWidth)
            return store_panel<Finish::Kind::Added>(t, f, c, first, column);
    }
#endif
    if (f.kind == Finish::Kind::Scaled) return store_tile<Finish::Kind::Scaled>(t, f, c, first, column);
    if (f.kind == Finish::Kind::Added) return store_tile<Finish::Kind::Added>(t, f, c, first, column);
    if (f.kind == Finish::Kind::Shifted && left >= vectors * kWidth)
        return store_tile<Finish::Kind::Shifted>(t, f, c, first, column);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            int64_t j = column + v * kWidth;
            Lanes sum = c[i][v] + Lanes::load(t.column_add + j);
            if (t.b_zero) sum = sum - Lanes::set(t.row_sum[first + i]) * Lanes::load(t.b_zero + j);
            if (t.row_zero) sum = sum - Lanes::set(t.row_zero[first + i]) * Lanes::load(t.column_sum + j);
            store_lanes(t, sum, j, (first + i) * t.y_row + j, left - v * kWidth, f);
        }
    }
}

using Tile = void (*)(IntegerBlock const&, Finish const&, int64_t, int64_t);
struct Tiles {
    Tile of[kRows + 1][kVectors + 1] = {};
    template <int rows, int vectors>
    constexpr void fill() {
        of[rows][vectors] = tile<rows, vectors>;
        if constexpr (vectors > 1)
            fill<rows, vectors - 1>();
        else if constexpr (rows > 1)
            fill<rows - 1, kVectors>();
    }
    constexpr Tiles() { fill<kRows, kVectors>(); }
};
constexpr Tiles kTiles;

RG_SIMD Finish::Kind kind_of(IntegerBlock const& t, Finish const& f) {
    bool bytes = element_bytes(f.store) == 1;
    if (f.store == IntegerStore::I32 || t.b_zero || t.row_zero) return Finish::Kind::Any;
    if (bytes && !f.rounded && !t.shift && !t.residual) return Finish::Kind::Scaled;
    if (bytes && f.rounded && !t.shift && t.residual && f.residual == IntegerStore::U8) return Finish::Kind::Added;
    if (!bytes && f.rounded && t.shift && !t.residual) return Finish::Kind::Shifted;
    return Finish::Kind::Any;
}

void multiply(IntegerBlock const& t) {
    Finish f = finish_of(t.tail);
    f.kind = kind_of(t, f);
    for (int64_t column = 0; column < t.columns; column += kPanel) {
        int64_t left = t.columns - column;
        int64_t vectors = left >= kPanel ? kVectors : (left + kWidth - 1) / kWidth;
        for (int64_t row = 0; row < t.rows; row += kRows)
            kTiles.of[t.rows - row < kRows ? t.rows - row : kRows][vectors](t, f, row, column);
    }
}

/// Sums of `vectors` blocks of channels at one position.
template <int vectors>
RG_SIMD void depthwise_channels(DepthwiseBlock const& t, Finish const& f, int64_t position, int64_t channel) {
    Lanes sum[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[v] = Lanes::load(t.column_add + channel + v * kWidth);
    uint8_t const* x = t.x + t.offsets[position] + channel;
    int32_t const* w = t.w + channel;
    for (int64_t tap = 0; tap < t.taps; ++tap, w += t.w_row)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            // The upper half of each lane of x is zero: two products of i16 are one.
            sum[v] =
                dot_words(sum[v], Lanes::load_bytes(x + t.tap_offsets[tap] + v * kWidth), Lanes::load(w + v * kWidth));
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
        int64_t j = channel + v * kWidth;
        store_lanes(t, sum[v], j, position * t.y_row + j, t.channels - j, f);
    }
}

void depthwise(DepthwiseBlock const& t) {
    Finish f = finish_of(t.tail);
    for (int64_t position = 0; position < t.positions; ++position) {
        int64_t channel = 0;
        for (; channel + 4 * kWidth <= t.channels; channel += 4 * kWidth)
            depthwise_channels<4>(t, f, position, channel);
        for (; channel < t.channels; channel += kWidth) depthwise_channels<1>(t, f, position, channel);
    }
}

RG_SIMD int32_t zero_at(IntegerTerms const& t, int64_t j) {
    if (!t.zeros) return t.zero_shift;
    return (t.zeros_signed ? static_cast<int8_t>(t.zeros[j]) : t.zeros[j]) + t.zero_shift;
}

void terms(IntegerTerms const& t) {
    int32_t* __restrict zero = t.zero;
    int32_t* __restrict sum = t.sum, * __restrict add = t.add;
    float* __restrict scale = t.scale;
    auto k = static_cast<uint32_t>(t.k), row_zero = static_cast<uint32_t>(t.row_zero);
    int32_t first = zero_at(t, 0);
    for (int64_t j = 0; j < t.n; ++j) zero[j] = first;
    if (t.many_zeros)
        for (int64_t j = 0; j < t.n; ++j) zero[j] = zero_at(t, j);
    for (int64_t j = 0; j < t.n; ++j)
        sum[j] = static_cast<int32_t>(static_cast<uint32_t>(t.sums[j]) - k * static_cast<uint32_t>(zero[j]));
    for (int64_t j = 0; j < t.n; ++j) add[j] = static_cast<int32_t>(0 - row_zero * static_cast<uint32_t>(sum[j]));
    if (t.bias)
        for (int64_t j = 0; j < t.n; ++j)
            add[j] = static_cast<int32_t>(static_cast<uint32_t>(add[j]) + static_cast<uint32_t>(t.bias[j]));
    if (t.scales)
        for (int64_t j = 0; j < t.n; ++j) scale[j] = t.scales[t.many_scales ? j : 0];
    // What lies behind the last column is computed with, not stored.
    for (int64_t j = t.n; j < t.columns; ++j) zero[j] = sum[j] = add[j] = 0, scale[j] = 0;
}

void widen(uint8_t const* source, bool is_signed, int64_t n, uint8_t* target) {
    if (RG_GROUP == 4) {
        uint8_t flip = is_signed ? 0x80 : 0;
        for (int64_t i = 0; i < n; ++i) target[i] = source[i] ^ flip;
        return;
    }
    auto* words = reinterpret_cast<int16_t*>(target);
    if (is_signed)
        for (int64_t i = 0; i < n; ++i) words[i] = static_cast<int8_t>(source[i]);
    else
        for (int64_t i = 0; i < n; ++i) words[i] = source[i];
}

int32_t sum(uint8_t const* row, int64_t n) {
    int32_t total = 0;
    auto const* words = reinterpret_cast<int16_t const*>(row);
    for (int64_t i = 0; i < n; ++i) total += RG_GROUP == 4 ? row[i] : words[i];
    return total;
}

constexpr IntegerFunctions kFunctions{RG_GROUP, kWidth, kPanel, kRows, multiply, depthwise, terms, widen, sum, nullptr};

}  // namespace
}  // namespace refactor::kernel
