#pragma once
#include "gather_matmul/routed_product.h"
#include "matmul/product.h"

namespace refactor::kernel {

/// Many rows of a group times their matrix, a panel of columns at a time: what is made of a panel serves all of them.
class RoutedPanels {
    ProductFunctions const& f_;
    int64_t k_, depth_, most_;

    int64_t panel_floats() const { return whole_lines(depth_ * f_.panel * 4) / 4; }

public:
    /// `step`: what depths are multiples of; `most` rows in a group.
    RoutedPanels(ProductFunctions const&, int64_t k, int64_t step, int64_t most);

    int64_t depth() const { return depth_; }  ///< of a part of a panel, at most
    int64_t panel() const { return f_.panel; }
    /// Two parts of a panel, as it is made and as it is multiplied, and its sums.
    size_t scratch_bytes() const { return static_cast<size_t>(2 * panel_floats() + most_ * f_.panel) * sizeof(float); }

    /// `set(t, column, k, wide)` sets source and B of `t`, `t.n` columns from `column` and `t.k` elements from `k` on;
    /// `wide` has room for them. `put(sums, column, count)` takes the sums [count of rows][panel] of `count` columns.
    template <class Set, class Put>
    void multiply(RoutedPart const& part, int64_t a_row, float const* bias, Set const& set, Put const& put) const {
        auto* wide = reinterpret_cast<float*>(part.scratch);
        auto* sums = wide + 2 * panel_floats();
        ProductBlock t{};
        t.m = t.block_m = part.group.count, t.block_k = depth_;
        t.a_row = a_row, t.a_k = 1, t.alpha = 1;
        t.y = sums, t.y_row = f_.panel, t.scratch = wide + panel_floats();
        for (auto column = part.column; column < part.column + part.columns; column += f_.panel) {
            t.n = std::min<int64_t>(f_.panel, part.column + part.columns - column);
            for (int64_t k = 0; k < k_; k += depth_) {
                t.k = std::min(depth_, k_ - k);
                t.a = reinterpret_cast<float const*>(part.made) + k;
                t.bias = bias && k == 0 ? bias + column : nullptr, t.residual = k ? sums : nullptr;
                set(t, column, k, wide);
                f_.multiply(t);
            }
            put(sums, column, t.n);
        }
    }
};

}  // namespace refactor::kernel
