#pragma once
// Loops over tiles: shared by the portable and the ISA files. Everything has internal linkage.
#include "elementwise/tile.h"

#define RG_INLINE [[gnu::always_inline]] inline

namespace refactor::kernel::elementwise {
namespace {

/// Elements that are computed in whole blocks.
RG_INLINE int64_t whole_blocks(TileOp const& op, int64_t n) { return (op.padded ? n + kBlock - 1 : n) & ~(kBlock - 1); }

/// F: constructed from the TileOp, then called as `R f(A)`.
template <class R, class A, class F>
void unary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const step = op.repeated & 1 ? 0 : kBlock, blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock, a += step, out += kBlock)
#pragma GCC ivdep
        for (int j = 0; j < kBlock; ++j) out[j] = f(a[j]);
    for (int64_t j = 0; j < n - blocks; ++j) out[j] = f(a[j]);
}

template <class R, class A, class F>
void binary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<A const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const step_a = op.repeated & 1 ? 0 : kBlock, step_b = op.repeated & 2 ? 0 : kBlock;
    int64_t const blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock, a += step_a, b += step_b, out += kBlock)
#pragma GCC ivdep
        for (int j = 0; j < kBlock; ++j) out[j] = f(a[j], b[j]);
    for (int64_t j = 0; j < n - blocks; ++j) out[j] = f(a[j], b[j]);
}

template <class T, class A, class F>
void ternary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<T const*>(slots[op.in[1]]);
    auto const* c = reinterpret_cast<T const*>(slots[op.in[2]]);
    auto* out = reinterpret_cast<T*>(slots[op.out]);
    int64_t const step_a = op.repeated & 1 ? 0 : kBlock, step_b = op.repeated & 2 ? 0 : kBlock;
    int64_t const step_c = op.repeated & 4 ? 0 : kBlock, blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock, a += step_a, b += step_b, c += step_c, out += kBlock)
#pragma GCC ivdep
        for (int j = 0; j < kBlock; ++j) out[j] = f(a[j], b[j], c[j]);
    for (int64_t j = 0; j < n - blocks; ++j) out[j] = f(a[j], b[j], c[j]);
}

/// Operands may be used one element at a time where a block has no advantage or may throw.
template <class R, class A, class F>
void exact_binary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<A const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const mask_a = op.repeated & 1 ? kBlock - 1 : -1, mask_b = op.repeated & 2 ? kBlock - 1 : -1;
    for (int64_t i = 0; i < n; ++i) out[i] = f(a[i & mask_a], b[i & mask_b]);
}

}  // namespace
}  // namespace refactor::kernel::elementwise
