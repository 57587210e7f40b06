#pragma once
// What becomes of integer sums, a vector at a time; part of `integer_product_impl.h`.
#include "integer_matmul/integer_product.h"

namespace refactor::kernel {
namespace {

constexpr int kWidth = Lanes::width;

/// What is done with sums, the same for all of a block.
struct Finish {
    IntegerStore store, residual;
    bool rounded, sloped;
    /// Frequent combinations, for which the tile stores without asking again.
    enum class Kind : uint8_t {
        Any,
        Scaled,       ///< to bytes, nothing but a scale
        Shifted,      ///< to bytes, scaled, then shifted
        Sloped,       ///< to bytes, scaled, shifted or not, then a leaky ReLU
        Rounded,      ///< to bytes, rounded in between
        Added,        ///< to bytes, rounded, then a residual of u8
        AddedSigned,  ///< or of i8
        Biased,       ///< to bytes, rounded, then shifted
        Summed,       ///< to bytes, not rounded, shifted or not, then any residual
        Real,         ///< to f32
    } kind;
    Floats low, high;  ///< bytes: bounds before the zero point is added
    Floats middle_low, middle_high, middle_scale, slope, residual_scale, residual_zero;
    Lanes y_zero;
    /// For bytes that are packed together: the zero point in each word, bounds in each byte, all of unsigned bytes,
    /// which `flip` makes signed.
    Lanes word_zero, byte_low, byte_high, flip;
};

/// `value` in each word, or in each byte.
RG_SIMD Lanes in_words(int32_t value) { return Lanes::set(static_cast<int32_t>((value & 0xffff) * 0x10001u)); }
RG_SIMD Lanes in_bytes(int32_t value) { return Lanes::set(static_cast<int32_t>((value & 0xff) * 0x1010101u)); }

RG_SIMD Finish finish_of(IntegerTail const& t) {
    float low = t.low, high = t.high;
    int32_t offset = t.store == IntegerStore::I8 ? 128 : 0, zero = t.y_zero + offset, byte_low = 0, byte_high = 0;
    if (t.store == IntegerStore::U8 || t.store == IntegerStore::I8) {
        float least = static_cast<float>((t.store == IntegerStore::I8 ? -128 : 0) - t.y_zero);
        low = low > least ? low : least, high = high < least + 255 ? high : least + 255;
        // Both bounds may lie beyond the type's.
        if (low > least + 255) low = least + 255;
        if (high < least) high = least;
        byte_low = static_cast<int32_t>(__builtin_rintf(low)) + zero;
        byte_high = static_cast<int32_t>(__builtin_rintf(high)) + zero;
    }
    return {t.store,
            t.residual,
            t.rounded,
            t.slope != 1,
            Finish::Kind::Any,
            Floats::set(low),
            Floats::set(high),
            Floats::set(t.middle_low),
            Floats::set(t.middle_high),
            Floats::set(t.middle_scale),
            Floats::set(t.slope),
            Floats::set(t.residual_scale),
            Floats::set(static_cast<float>(t.residual_zero)),
            Lanes::set(t.y_zero),
            in_words(zero),
            in_bytes(byte_low),
            in_bytes(byte_high),
            in_bytes(offset)};
}

/// A product that is rounded: what it is added to is not fused with it, whichever loop stores the result.
RG_SIMD Floats product(Floats a, Floats b) {
    Floats value = a * b;
#ifndef RG_EMULATE_AVX512
    asm("" : "+v"(value.v));
#endif
    return value;
}
RG_SIMD Floats scaled(Lanes sum, Floats scale) { return product(to_float(sum), scale); }

RG_SIMD Floats round_middle(Floats value, Finish const& f) {
    return min(max(round_float(value), f.middle_low), f.middle_high) * f.middle_scale;
}

/// A leaky ReLU; NaN stays.
RG_SIMD Floats sloped(Floats value, Finish const& f) { return max(value * f.slope, value); }

RG_SIMD int element_bytes(IntegerStore store) { return store == IntegerStore::U8 || store == IntegerStore::I8 ? 1 : 4; }

RG_SIMD Floats load_residual(uint8_t const* p, IntegerStore type) {
    if (type == IntegerStore::F32) return Floats::load(reinterpret_cast<float const*>(p));
    return to_float(type == IntegerStore::U8 ? Lanes::load_bytes(p) : Lanes::load_signed(p));
}

/// `shift` and `residual` are null where there is none.
RG_SIMD void store_whole(Lanes sum, float const* scale, float const* shift, uint8_t const* residual, void* y,
                         Finish const& f) {
    if (f.store == IntegerStore::I32) return sum.store(y);
    Floats value = scaled(sum, Floats::load(scale));
    if (f.rounded) value = round_middle(value, f);
    if (shift) value = value + Floats::load(shift);
    if (f.sloped) value = sloped(value, f);
    if (residual) value = value + product(load_residual(residual, f.residual) - f.residual_zero, f.residual_scale);
    // A real result stays NaN, a byte becomes the least one.
    if (f.store == IntegerStore::F32) return min(f.high, max(f.low, value)).store(y);
    (round(min(max(value, f.low), f.high)) + f.y_zero).store_bytes(y);
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

}  // namespace
}  // namespace refactor::kernel
