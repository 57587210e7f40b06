#pragma once
#include "frontend/custom_operator.h"

namespace refactor::frontend {

/// The operators of a shared library with the interface of `refactor_graph/custom_operator.h`. The library stays loaded
/// until the process ends. Throws `InvalidInput` if it cannot be loaded, was built for another interface, or describes
/// an operator wrongly.
CustomOperators load_custom_library(std::string const& path);

}  // namespace refactor::frontend
