#pragma once
// Loops over tiles of floats in packs of vectors; include `simd/math.h` first. Internal linkage.
#include "elementwise/vec_loops.h"

namespace refactor::kernel::elementwise {
namespace {

/// `vec_unary` of a functor on packs, too.
template <class F>
void vec_packed(TileOp const& op, std::byte* const* slots, int64_t n) {
    if (op.repeated & 1) return vec_unary<F>(op, slots, n);
    F f{op};
    auto const* a = reinterpret_cast<float const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<float*>(slots[op.out]);
    for (; n >= Pack::width; n -= Pack::width, a += Pack::width, out += Pack::width) f(Pack::load(a)).store(out);
    TileOp rest = op;
    rest.in[0] = 0, rest.out = 1;
    std::byte* const ends[]{reinterpret_cast<std::byte*>(const_cast<float*>(a)), reinterpret_cast<std::byte*>(out)};
    vec_unary<F>(rest, ends, n);
}

}  // namespace
}  // namespace refactor::kernel::elementwise
