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

// Inner loops are as long as GCC keeps them loops, which it then makes vectors of: those of `kBlock` elements are
// unrolled before that, and stay scalar. `tools/lint/isa_objects.py` looks for vectors in each.

/// F: constructed from the TileOp, then called as `R f(A)`.
template <class R, class A, class F>
void unary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const step = step_of(op, 0);
    if (op.padded) n = whole_blocks(op, n);
    for (; n >= kRepeat; n -= kRepeat, a += step, out += kRepeat)
#pragma GCC ivdep
        for (int j = 0; j < kRepeat; ++j) out[j] = f(a[j]);
    for (int j = 0; j < n; ++j) out[j] = f(a[j]);
}

template <class R, class A, class F>
void binary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<A const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const step_a = step_of(op, 0), step_b = step_of(op, 1);
    if (op.padded) n = whole_blocks(op, n);
    for (; n >= kRepeat; n -= kRepeat, a += step_a, b += step_b, out += kRepeat)
#pragma GCC ivdep
        for (int j = 0; j < kRepeat; ++j) out[j] = f(a[j], b[j]);
    for (int j = 0; j < n; ++j) out[j] = f(a[j], b[j]);
}

template <class T, class A, class F>
void ternary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<T const*>(slots[op.in[1]]);
    auto const* c = reinterpret_cast<T const*>(slots[op.in[2]]);
    auto* out = reinterpret_cast<T*>(slots[op.out]);
    int64_t const step_a = step_of(op, 0), step_b = step_of(op, 1), step_c = step_of(op, 2);
    if (op.padded) n = whole_blocks(op, n);
    for (; n >= kRepeat; n -= kRepeat, a += step_a, b += step_b, c += step_c, out += kRepeat)
#pragma GCC ivdep
        for (int j = 0; j < kRepeat; ++j) out[j] = f(a[j], b[j], c[j]);
    for (int j = 0; j < n; ++j) out[j] = f(a[j], b[j], c[j]);
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
