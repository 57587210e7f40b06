#pragma once
// Loops over tiles of floats in vectors; include a `simd/vec_*.h` first. Internal linkage.
#include "elementwise/tile_loops.h"

namespace refactor::kernel::elementwise {
namespace {

RG_SIMD Vec load_lanes(Vec::Element const* p, int64_t n) {
    return n >= Vec::width ? Vec::load(p) : Vec::load_first(p, static_cast<int>(n));
}
RG_SIMD void store_lanes(Vec v, Vec::Element* p, int64_t n) {
    if (n >= Vec::width)
        v.store(p);
    else
        v.store_first(p, static_cast<int>(n));
}

template <class F>
void vec_unary(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<Vec::Element const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<Vec::Element*>(slots[op.out]);
    int64_t const step = step_of(op, 0);
    if (op.padded) n = whole_blocks(op, n);
#pragma GCC unroll 2
    for (; n >= kRepeat; n -= kRepeat, a += step, out += kRepeat)
#pragma GCC unroll 4
        for (int j = 0; j < kRepeat; j += Vec::width) f(Vec::load(a + j)).store(out + j);
    if (n >= kBlock) {
#pragma GCC unroll 4
        for (int j = 0; j < kBlock; j += Vec::width) f(Vec::load(a + j)).store(out + j);
        n -= kBlock, a += kBlock, out += kBlock;
    }
    for (int j = 0; j < n; j += Vec::width) store_lanes(f(load_lanes(a + j, n - j)), out + j, n - j);
}

template <class F>
void vec_binary(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<Vec::Element const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<Vec::Element const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<Vec::Element*>(slots[op.out]);
    int64_t const step_a = step_of(op, 0), step_b = step_of(op, 1);
    if (op.padded) n = whole_blocks(op, n);
#pragma GCC unroll 2
    for (; n >= kRepeat; n -= kRepeat, a += step_a, b += step_b, out += kRepeat)
#pragma GCC unroll 4
        for (int j = 0; j < kRepeat; j += Vec::width) f(Vec::load(a + j), Vec::load(b + j)).store(out + j);
    if (n >= kBlock) {
#pragma GCC unroll 4
        for (int j = 0; j < kBlock; j += Vec::width) f(Vec::load(a + j), Vec::load(b + j)).store(out + j);
        n -= kBlock, a += kBlock, b += kBlock, out += kBlock;
    }
    for (int j = 0; j < n; j += Vec::width)
        store_lanes(f(load_lanes(a + j, n - j), load_lanes(b + j, n - j)), out + j, n - j);
}

template <class F>
void vec_ternary(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<Vec::Element const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<Vec::Element const*>(slots[op.in[1]]);
    auto const* c = reinterpret_cast<Vec::Element const*>(slots[op.in[2]]);
    auto* out = reinterpret_cast<Vec::Element*>(slots[op.out]);
    int64_t const step_a = step_of(op, 0), step_b = step_of(op, 1);
    int64_t const step_c = step_of(op, 2);
    if (op.padded) n = whole_blocks(op, n);
#pragma GCC unroll 2
    for (; n >= kRepeat; n -= kRepeat, a += step_a, b += step_b, c += step_c, out += kRepeat)
#pragma GCC unroll 4
        for (int j = 0; j < kRepeat; j += Vec::width)
            f(Vec::load(a + j), Vec::load(b + j), Vec::load(c + j)).store(out + j);
    if (n >= kBlock) {
#pragma GCC unroll 4
        for (int j = 0; j < kBlock; j += Vec::width)
            f(Vec::load(a + j), Vec::load(b + j), Vec::load(c + j)).store(out + j);
        n -= kBlock, a += kBlock, b += kBlock, c += kBlock, out += kBlock;
    }
    for (int j = 0; j < n; j += Vec::width)
        store_lanes(f(load_lanes(a + j, n - j), load_lanes(b + j, n - j), load_lanes(c + j, n - j)), out + j, n - j);
}

}  // namespace
}  // namespace refactor::kernel::elementwise
