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

void whole_plain(GlobalPoolJob const& j) {
    int64_t count = j.positions / W;
    int left = static_cast<int>(j.positions - count * W);
    Vec rest = Vec::load_first(j.x + count * W, left);
    if (!j.maximum) {
        *j.y = sum(reduce<false>(j.x, count) + rest) / static_cast<float>(j.positions);
        return;
    }
    Vec best = maximum(reduce<true>(j.x, count), select(first_lanes(left), rest, Vec::set(-kInf)));
    *j.y = any(is_nan(best)) ? __builtin_nanf("") : max_of(best);
}

constexpr PoolIsa kPoolIsa{W, run_rows, separable, strips, lines, whole_blocked, whole_plain};

}  // namespace
}  // namespace refactor::kernel
