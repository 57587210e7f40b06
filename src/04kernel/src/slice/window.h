#pragma once
#include "runtime/value.h"

namespace refactor::kernel {

/// What a Slice takes whose bounds are data, by axis of the operand.
struct SliceWindow {
    Dims sizes, starts, steps;

    /// `inputs`: those of `make_slice`. Throws `InvalidInput`.
    static SliceWindow of(std::span<runtime::Value const* const> inputs);

private:
    void set_axis(size_t axis, int64_t start, int64_t end, int64_t step);
};

}  // namespace refactor::kernel
