#pragma once
#include "kernel/device_dnn.h"
#include "kernel/device_kernels.h"
#include "mem_manager/device_events.h"
#include "mem_manager/device_graphs.h"
#include "mem_manager/device_host_memory.h"
#include "mem_manager/device_interop.h"
#include "mem_manager/device_ranges.h"
#include "mem_manager/device_streams.h"

namespace refactor::cuda_plugin {

RefactorDeviceStreams const& stream_table();
RefactorDeviceKernels const& kernel_table();
RefactorDeviceDnn const& dnn_table();
RefactorHostMemory const& host_memory_table();
RefactorDeviceGraphs const& graph_table();
RefactorDeviceEvents const& event_table();
RefactorDeviceInterop const& interop_table();
RefactorDeviceRanges const& range_table();

/// The parts of the table of kernels that matmul.cc implements.
int32_t matmul_create(void* device, RefactorMatMul const* product, void** plan, size_t* workspace_bytes, char* text,
                      size_t text_bytes);
void matmul_destroy(void* plan);
int32_t matmul_run(void* plan, void* stream, RefactorMatMulOperands const* operands, char* text, size_t text_bytes);
int32_t capability(void* device);

}  // namespace refactor::cuda_plugin
