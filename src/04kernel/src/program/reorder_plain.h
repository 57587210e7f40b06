#pragma once
#include "kernel/kernel.h"

namespace refactor::kernel {

/// Copies a tensor of any layout into row-major order, element by element: for tracing, not for runs.
void reorder_to_plain(Layout layout, DataType dtype, Dims const& dims, void const* source, void* target);

}  // namespace refactor::kernel
