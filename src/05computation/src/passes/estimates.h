#pragma once
#include "pass.h"

#include <optional>

namespace refactor::computation {

/// The sizes of a tensor; -1 where they are not known.
Dims known_dims(EdgePtr edge);
/// The same with a batch of one, and large sizes, in the place of those that are not known.
Dims large_dims(EdgePtr edge);
/// An edge as kernels see it, with these sizes.
kernel::Operand operand_of(EdgePtr edge, Dims dims);

/// Time in ns of the fastest of the kernels on a CPU for operands of known sizes; none if all decline.
std::optional<double> fastest(kernel::Candidates const& found, std::span<kernel::Operand const> inputs,
                              kernel::Operand const& output, int threads);

}  // namespace refactor::computation
