#pragma once
#include "kernel/epilogue.h"
#include "kernel/ops/elementwise.h"

namespace refactor::kernel::cuda {

/// What an epilogue does, as an elementwise program over inputs Y, bias, residual (those that there are).
ElementwiseInfo program_of(Epilogue const& epilogue, DataType dtype);

}  // namespace refactor::kernel::cuda
