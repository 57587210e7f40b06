#pragma once
#include "integer_matmul/integer_matmul.h"
#include "integer_matmul/integer_pack.h"
#include "mem_manager/blob.h"

#include <memory>
#include <vector>

namespace refactor::kernel {

/// The product of `shape` by the loops `f`. `packed`: B if it is a constant, with as many spills; null: B is packed in
/// every run.
std::unique_ptr<runtime::Task> make_integer_product(IntegerFunctions const& f, IntegerResult const& result,
                                                    IntegerShape const& shape,
                                                    std::shared_ptr<mem_manager::Blob const> packed, int64_t spills,
                                                    BindArgs const& args);

}  // namespace refactor::kernel
