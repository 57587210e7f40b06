#pragma once
#include "pool/pool_lines_impl.h"
#include "pool/pool_positions_impl.h"
#include "pool/pool_separable_impl.h"
#include "pool/pool_strips_impl.h"

namespace refactor::kernel {
namespace {

void whole_blocked(GlobalPoolJob const& j) {
    if (j.maximum) return reduce<true>(j.x, j.positions).store(j.y);
    (reduce<false>(j.x, j.positions) / Vec::set(static_cast<float>(j.positions))).store(j.y);
}

constexpr PoolIsa kPoolIsa{W, run_rows, separable, strips, lines, whole_blocked};

}  // namespace
}  // namespace refactor::kernel
