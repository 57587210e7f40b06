#pragma once
#include "kernel/ops/quantize.h"
#include "reduce/cpu_kernel.h"

#include <algorithm>

namespace refactor::kernel {

/// Finds the scale of an element, given the sizes of both tensors.
class ScaleIndex {
    int64_t size_ = 1, inner_ = 1, block_ = 1, groups_ = 1;
    enum class Kind : uint8_t { One, Axis, Block } kind_ = Kind::One;

public:
    /// Why the sizes do not fit, or empty.
    std::string init(Granularity const&, Dims const& x, Dims const& scale);
    int64_t operator()(int64_t element) const {
        if (kind_ == Kind::One) return 0;
        auto row = element / inner_, at = row % size_;
        if (kind_ == Kind::Axis) return at;
        return (row / size_ * groups_ + at / block_) * inner_ + element % inner_;
    }
    /// Elements from one on that have its scale, or each the next one.
    struct Run {
        int64_t scale, count, step;
    };
    Run run(int64_t element) const {
        if (kind_ == Kind::One) return {0, INT64_MAX, 0};
        auto at = element / inner_ % size_, scale = (*this)(element);
        if (kind_ == Kind::Axis)
            return inner_ > 1 ? Run{scale, inner_ - element % inner_, 0} : Run{scale, size_ - at, 1};
        return inner_ > 1 ? Run{scale, inner_ - element % inner_, 1}
                          : Run{scale, std::min(block_ - at % block_, size_ - at), 0};
    }
};

/// Any types, any granularity.
MaybeKernel make_quantize_reference(QuantizeInfo const&, Request const&);
MaybeKernel make_dequantize_reference(DequantizeInfo const&, Request const&);

}  // namespace refactor::kernel
