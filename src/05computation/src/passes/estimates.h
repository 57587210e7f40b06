#pragma once
#include "pass.h"

#include <optional>

namespace refactor::computation {

/// The sizes of a tensor; -1 where they are not known.
Dims known_dims(EdgePtr edge);

/// Sizes to choose layouts and kernels by before they are known: symbols that are an input's first axis alone are 1, as
/// batches mostly are, others 256, and what is computed of them is what these make it.
class AssumedSizes {
    Bindings bindings_;

public:
    explicit AssumedSizes(Model const&);
    int64_t of(DimExpr const&) const;
    Dims dims_of(EdgePtr) const;
    double bytes_of(EdgePtr) const;
};

/// An edge as kernels see it, with these sizes.
kernel::Operand operand_of(EdgePtr edge, Dims dims);

/// Time in ns of the fastest of the kernels on a CPU for operands of known sizes; none if all decline.
std::optional<double> fastest(kernel::Candidates const& found, std::span<kernel::Operand const> inputs,
                              kernel::Operand const& output, int threads);

}  // namespace refactor::computation
