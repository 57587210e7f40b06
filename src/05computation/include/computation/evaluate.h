#pragma once
#include "common/error.h"
#include "computation/graph.h"

namespace refactor::computation {

/// A constant: type, sizes and row-major host data.
struct Constant {
    DataType dtype = DataType::Undefined;
    Dims dims;
    std::shared_ptr<mem_manager::Blob const> blob;
};

/// Computes `op` on the CPU, on the calling thread, for inputs that are all known (a default `Constant`: absent).
/// `outputs` come with dtype and dims and are given their data. `params` are the values of `op.params()`. Returns why
/// it cannot be computed: it is random, no kernel, or what the kernel threw.
Result<std::vector<Constant>, kernel::Rejection> evaluate(Operator const& op, std::span<Constant const> inputs,
                                                          std::vector<Constant> outputs,
                                                          std::span<int64_t const> params);

}  // namespace refactor::computation
