#pragma once
#include "runtime/value.h"

namespace refactor::kernel::text {

/// Two tensors walked together, broadcast as numpy does.
class Pairs {
    Dims dims_, strides_a_, strides_b_;

public:
    /// Throws `InvalidInput` if the sizes do not fit.
    Pairs(Dims const& a, Dims const& b);
    Dims const& dims() const { return dims_; }
    int64_t count() const { return element_count(dims_); }

    /// `body(i, a, b)` with the numbers of the elements of result and operands, for results `begin` to `end`.
    template <class F>
    void visit(int64_t begin, int64_t end, F&& body) const {
        auto rank = dims_.size();
        Dims at(rank, 0);
        int64_t a = 0, b = 0, rest = begin;
        for (auto axis = rank; axis-- > 0;) {
            at[axis] = rest % dims_[axis], rest /= dims_[axis];
            a += at[axis] * strides_a_[axis], b += at[axis] * strides_b_[axis];
        }
        for (auto i = begin; i < end; ++i) {
            body(i, a, b);
            for (auto axis = rank; axis-- > 0;) {
                a += strides_a_[axis], b += strides_b_[axis];
                if (++at[axis] < dims_[axis]) break;
                a -= strides_a_[axis] * dims_[axis], b -= strides_b_[axis] * dims_[axis];
                at[axis] = 0;
            }
        }
    }
};

}  // namespace refactor::kernel::text
