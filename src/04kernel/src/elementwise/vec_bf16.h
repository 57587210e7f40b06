#pragma once
// Loops over tiles of f32 and of bf16, two vectors at a time. Include `simd/vec_avx512.h` first. Needs AVX512-BF16.
// Internal linkage.
#include "elementwise/tile_loops.h"
#include "simd/bf16_blocks.h"
#include "simd/bf16_pairs.h"

namespace refactor::kernel::elementwise {
namespace {

static_assert(kRepeat == 2 * Vec::width);

struct TwoVecs {
    Vec low, high;
};
RG_SIMD TwoVecs load_two(float const* p) { return {Vec::load(p), Vec::load(p + Vec::width)}; }
RG_SIMD TwoVecs load_two(uint16_t const* p) { return {load_bf16(p), load_bf16(p + Vec::width)}; }
RG_SIMD void store_two(TwoVecs x, float* p) { x.low.store(p), x.high.store(p + Vec::width); }
RG_SIMD void store_two(TwoVecs x, uint16_t* p) { round_to_pairs(x.low, x.high).store(reinterpret_cast<float*>(p)); }

/// An operand of a tile: floats, or bf16 as its bits.
template <class T>
struct Elements {
    T const* at;
    int64_t step;

    RG_INLINE Elements(TileOp const& op, std::byte* const* slots, int i)
        : at(reinterpret_cast<T const*>(slots[op.in[i]])), step(step_of(op, i)) {}
    RG_SIMD TwoVecs load() const { return load_two(at); }
    /// The other lanes are zero.
    RG_SIMD TwoVecs load_first(int64_t n) const {
        alignas(64) T some[kRepeat] = {};
        __builtin_memcpy(some, at, static_cast<size_t>(n) * sizeof(T));
        return load_two(some);
    }
};

template <bool kRelu, class F, class... X>
RG_SIMD TwoVecs apply(F const& f, X... x) {
    TwoVecs y{f(x.low...), f(x.high...)};
    if constexpr (kRelu) y = {max(Vec::zero(), y.low), max(Vec::zero(), y.high)};
    return y;
}

template <bool kRelu, class F, class Y, class... X>
RG_INLINE void each_two(F const& f, Y* y, int64_t n, X... x) {
    for (; n >= kRepeat; n -= kRepeat, y += kRepeat) {
        store_two(apply<kRelu>(f, x.load()...), y);
        ((x.at += x.step), ...);
    }
    if (n <= 0) return;
    alignas(64) Y some[kRepeat];
    store_two(apply<kRelu>(f, x.load_first(n)...), some);
    __builtin_memcpy(y, some, static_cast<size_t>(n) * sizeof(Y));
}

/// `F` of operands of types `A`, `B` and `C` (void: none), negative results set to zero if `kRelu`.
template <class F, bool kRelu, class Y, class A, class B = void, class C = void>
void bf16_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto* y = reinterpret_cast<Y*>(slots[op.out]);
    Elements<A> a(op, slots, 0);
    if constexpr (__is_same(B, void)) {
        each_two<kRelu>(f, y, n, a);
    } else {
        Elements<B> b(op, slots, 1);
        if constexpr (__is_same(C, void))
            each_two<kRelu>(f, y, n, a, b);
        else
            each_two<kRelu>(f, y, n, a, b, Elements<C>(op, slots, 2));
    }
}

/// The loop that stores what the key says; null where neither side is bf16.
template <class F, class A, class B = void, class C = void>
TileFunction bf16_function(TileKey key) {
    if (key.result == DataType::BF16)
        return key.relu ? bf16_loop<F, true, uint16_t, A, B, C> : bf16_loop<F, false, uint16_t, A, B, C>;
    if constexpr (__is_same(A, uint16_t))
        if (!key.relu) return bf16_loop<F, false, float, A, B, C>;
    return nullptr;
}

template <class F>
TileFunction bf16_unary(TileKey key) {
    if (key.relu) return nullptr;
    bool stores = key.result == DataType::BF16;
    if (!key.narrow) return stores ? bf16_loop<F, false, uint16_t, float> : nullptr;
    return stores ? bf16_loop<F, false, uint16_t, uint16_t> : bf16_loop<F, false, float, uint16_t>;
}
template <class F>
TileFunction bf16_binary(TileKey key) {
    switch (key.narrow) {
        case 0:
            return bf16_function<F, float, float>(key);
        case 1:
            return bf16_function<F, uint16_t, float>(key);
        case 3:
            return bf16_function<F, uint16_t, uint16_t>(key);
        default:
            return nullptr;
    }
}
template <class F>
TileFunction bf16_ternary(TileKey key) {
    switch (key.narrow) {
        case 0:
            return bf16_function<F, float, float, float>(key);
        case 1:
            return bf16_function<F, uint16_t, float, float>(key);
        case 5:
            return bf16_function<F, uint16_t, float, uint16_t>(key);
        default:
            return nullptr;
    }
}

}  // namespace
}  // namespace refactor::kernel::elementwise
