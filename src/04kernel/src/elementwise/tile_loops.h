#pragma once
// Loops over tiles: shared by the portable and the ISA files. Everything has internal linkage.
#include "elementwise/tile.h"

#define RG_INLINE [[gnu::always_inline]] inline

namespace refactor::kernel::elementwise {
namespace {

/// Elements that are computed in whole blocks.
RG_INLINE int64_t whole_blocks(TileOp const& op, int64_t n) { return (op.padded ? n + kBlock - 1 : n) & ~(kBlock - 1); }

/// What the pointer to operand `i` advances by every `kRepeat` elements.
RG_INLINE int64_t step_of(TileOp const& op, int i) { return op.repeated >> i & 1 ? 0 : kRepeat; }
/// Which bits of the number of an element tell where it is in operand `i`.
RG_INLINE int64_t mask_of(TileOp const& op, int i) { return op.repeated >> i & 1 ? kRepeat - 1 : -1; }

/// F: constructed from the TileOp, then called as `R f(A)`.
template <class R, class A, class F>
void unary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const mask = mask_of(op, 0), blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock) {
        auto const* from = a + (i & mask);
        auto* to = out + i;
#pragma GCC ivdep
        for (int j = 0; j < kBlock; ++j) to[j] = f(from[j]);
    }
    for (int64_t i = blocks; i < n; ++i) out[i] = f(a[i & mask]);
}

template <class R, class A, class F>
void binary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<A const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const mask_a = mask_of(op, 0), mask_b = mask_of(op, 1), blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock) {
        auto const *x = a + (i & mask_a), *y = b + (i & mask_b);
        auto* to = out + i;
#pragma GCC ivdep
        for (int j = 0; j < kBlock; ++j) to[j] = f(x[j], y[j]);
    }
    for (int64_t i = blocks; i < n; ++i) out[i] = f(a[i & mask_a], b[i & mask_b]);
}

template <class T, class A, class F>
void ternary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<T const*>(slots[op.in[1]]);
    auto const* c = reinterpret_cast<T const*>(slots[op.in[2]]);
    auto* out = reinterpret_cast<T*>(slots[op.out]);
    int64_t const mask_a = mask_of(op, 0), mask_b = mask_of(op, 1), mask_c = mask_of(op, 2);
    int64_t const blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock) {
        auto const* x = a + (i & mask_a);
        auto const *y = b + (i & mask_b), *z = c + (i & mask_c);
        auto* to = out + i;
#pragma GCC ivdep
        for (int j = 0; j < kBlock; ++j) to[j] = f(x[j], y[j], z[j]);
    }
    for (int64_t i = blocks; i < n; ++i) out[i] = f(a[i & mask_a], b[i & mask_b], c[i & mask_c]);
}

/// Operands may be used one element at a time where a block has no advantage or may throw.
template <class R, class A, class F>
void exact_binary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<A const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const mask_a = mask_of(op, 0), mask_b = mask_of(op, 1);
    for (int64_t i = 0; i < n; ++i) out[i] = f(a[i & mask_a], b[i & mask_b]);
}

}  // namespace
}  // namespace refactor::kernel::elementwise
