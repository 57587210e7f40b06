#pragma once
#include "kernel/procedures/select.h"

/// The procedures of kernel/procedures/select.h on a GPU; null where it has none for these types.
namespace refactor::kernel::cuda {

ProcedurePtr nonzero_nvrtc(mem_manager::Device& place, DataType x);
ProcedurePtr compress_nvrtc(mem_manager::Device& place, DataType x, std::optional<int64_t> axis);
ProcedurePtr unique_nvrtc(mem_manager::Device& place, DataType x, std::optional<int64_t> axis, bool sorted);
ProcedurePtr non_max_suppression_nvrtc(mem_manager::Device& place, bool center);
ProcedurePtr open_range_nvrtc(mem_manager::Device& place, DataType x);
ProcedurePtr open_slice_nvrtc(mem_manager::Device& place, DataType x, size_t rank);

}  // namespace refactor::kernel::cuda
