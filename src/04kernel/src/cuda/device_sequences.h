#pragma once
#include "kernel/procedures/sequence.h"

/// The procedures of kernel/procedures/sequence.h that copy elements, on a GPU; null where it has none for these types.
namespace refactor::kernel::cuda {

ProcedurePtr split_to_sequence_nvrtc(mem_manager::Device& place, DataType x, int64_t axis, bool keep_axis);
ProcedurePtr concat_from_sequence_nvrtc(mem_manager::Device& place, DataType x, int64_t axis, bool new_axis);

}  // namespace refactor::kernel::cuda
