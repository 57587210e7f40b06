#pragma once
#include "matmul/strassen_plan.h"

namespace refactor::kernel {

/// Products with panels of B. `blocked`: A and Y are in blocks of channels as wide as a vector, [channels / width,
/// rows, width]. Bias, residual and Y follow A and B among the arguments.
std::unique_ptr<runtime::Task> make_strassen_task(ProductFunctions const&, Epilogue const&, float alpha,
                                                  MatMulShape const&, bool blocked,
                                                  std::shared_ptr<mem_manager::Blob const> panels, int threads);

}  // namespace refactor::kernel
