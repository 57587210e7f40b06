#pragma once
#include "kernel/device_kernels.h"
#include "kernel/kernel.h"
#include "mem_manager/device_streams.h"

namespace refactor::mem_manager {
class Device;
}

namespace refactor::kernel::cuda {

/// The functions of the plugin for one device. Failures are thrown as `DeviceError` or `OutOfMemory`.
class Library {
    mem_manager::Device* device_;
    RefactorDeviceKernels const* kernels_;
    RefactorDeviceStreams const* streams_;

    Library(mem_manager::Device& device, RefactorDeviceKernels const* kernels, RefactorDeviceStreams const* streams)
        : device_(&device), kernels_(kernels), streams_(streams) {}

public:
    /// Refused if the request is for no GPU, or its plugin has no kernels.
    static Result<Library, Rejection> of(Request const& request);
    static Result<Library, Rejection> on(mem_manager::Device& device);
    mem_manager::Device& device() const { return *device_; }

    void* load(std::string const& source, std::string const& name) const;
    void launch(void* stream, void* function, uint32_t blocks, uint32_t threads, void const* argument) const;
    void* matmul_create(RefactorMatMul const& product, size_t& workspace_bytes) const;
    void matmul_destroy(void* plan) const { kernels_->matmul_destroy(plan); }
    void matmul_run(void* plan, void* stream, RefactorMatMulOperands const& operands) const;
    /// The compute capability times ten.
    int capability() const;
    void copy(void* stream, void* target, void const* source, size_t bytes) const;
};

/// "op:nvidia:algorithm:dtype"
std::string id_of(std::string_view op, std::string_view algorithm, DataType dtype);

/// The request as it would be for the host, or why it cannot be for a GPU.
Result<Request, Rejection> host_request(Request const& request);

}  // namespace refactor::kernel::cuda
