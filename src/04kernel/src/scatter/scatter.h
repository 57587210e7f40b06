#pragma once
#include "kernel/ops/movement.h"
#include "movement/indices.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(ScatterInfo const&, Request const&);
#include "scatter/scatter_kernels.inc"
#undef RG_KERNEL

/// Reasons of all kernels to decline, while the Program is built and when sizes are known.
std::optional<Rejection> refuse_operands(ScatterInfo const& info, Request const& request);
std::optional<Rejection> refuse_shapes(ScatterInfo const& info, BindArgs const& args);

/// The axis of ScatterElements, or the first ones, as many as a tuple of ScatterND has numbers, with strides in
/// elements.
movement::IndexedAxes indexed_axes(ScatterInfo const& info, TensorDesc const& x, TensorDesc const& indices);

/// Data that are not updated in place are copied to the output by all threads.
void copy_data(void* const* arguments, int64_t bytes, ThreadPool& pool);

}  // namespace refactor::kernel
