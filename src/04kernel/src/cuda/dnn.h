#pragma once
#include "kernel/device_dnn.h"
#include "kernel/kernel.h"

namespace refactor::mem_manager {
class Device;
}

namespace refactor::kernel::cuda {

/// A plan of the vendor's library for one convolution or attention; copies share it.
struct DnnPlan {
    std::shared_ptr<void> native;
    size_t workspace_bytes = 0;
};

/// The plugin's convolutions and attention for one device.
class Dnn {
    mem_manager::Device* device_;
    RefactorDeviceDnn const* table_;

    Dnn(mem_manager::Device& device, RefactorDeviceDnn const* table) : device_(&device), table_(table) {}
    template <class T, class F>
    Result<DnnPlan, Rejection> plan(T const& asked, int rank, F function) const;

public:
    /// Refused if the request is for no GPU, or if its plugin has no such library, or that cannot be loaded.
    static Result<Dnn, Rejection> of(Request const& request);

    /// The `rank`-th best plan, or why there is none. Throw `OutOfMemory`.
    Result<DnnPlan, Rejection> convolution(RefactorConvolution const& convolution, int rank) const;
    Result<DnnPlan, Rejection> attention(RefactorAttention const& attention, int rank) const;
    /// Throws `DeviceError`, `OutOfMemory`.
    void run(DnnPlan const& plan, void* stream, void const* const* operands, void* y, void* workspace) const;
};

}  // namespace refactor::kernel::cuda
