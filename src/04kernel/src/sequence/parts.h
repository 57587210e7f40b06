#pragma once
#include "runtime/value.h"

/// Sizes of tensors that are cut into sequences and joined from them.
namespace refactor::kernel {

/// Sizes of a tensor around one axis.
struct Around {
    int64_t outer = 1, size = 1, inner = 1;

    Around(Dims const& dims, size_t axis) : size(dims[axis]) {
        for (size_t i = 0; i < dims.size(); ++i)
            if (i != axis) (i < axis ? outer : inner) *= dims[i];
    }
};

/// Counted from the front; one outside is `InvalidInput`.
size_t axis_of(int64_t axis, size_t rank);

/// Of the parts of a tensor with `size` elements along the axis: `split` as of `make_split_to_sequence`, null if it is
/// omitted.
std::vector<int64_t> split_sizes(runtime::Value const* split, int64_t size);

/// The sizes of joined tensors: what comes out, and what each gives along the axis. Throws `InvalidInput` if they do
/// not fit.
struct Joined {
    size_t axis = 0;
    Dims dims;
    std::vector<int64_t> sizes;

    Joined(std::vector<runtime::Value> const& parts, int64_t along, bool new_axis);
};

}  // namespace refactor::kernel
