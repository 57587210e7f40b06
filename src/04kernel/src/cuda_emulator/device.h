#pragma once
#include "cuda_emulator/grid.h"
#include "cuda_emulator/memory.h"
#include "kernel/device_kernels.h"
#include "mem_manager/device_streams.h"

#include <memory>
#include <mutex>
#include <string>

namespace refactor::cuda_emulator {

/// One emulated GPU.
struct Device {
    int32_t ordinal = 0;
    std::string name;
    Memory memory;

    Device(int32_t ordinal_, size_t bytes)
        : ordinal(ordinal_), name("emulated GPU " + std::to_string(ordinal_)), memory(bytes) {}
};

/// Work is done when it is asked for: a stream has only its device.
struct Stream {
    Device* device;
};

inline Device& device_of(void* device) { return *static_cast<Device*>(device); }

/// Where the text of an error goes.
struct Complaint {
    char* text;
    size_t bytes;
    /// Returns `code`.
    int32_t operator()(int32_t code, std::string const& message) const;
};

/// What devices would report for an address that is not theirs, and for everything else.
inline constexpr int32_t kIllegalAddress = 700, kFailure = 999;

RefactorDeviceStreams const& stream_table();
RefactorDeviceKernels const& kernel_table();

/// The parts of the table of kernels that matmul.cc implements.
int32_t matmul_create(void* device, RefactorMatMul const* product, void** plan, size_t* workspace_bytes, char* text,
                      size_t text_bytes);
void matmul_destroy(void* plan);
int32_t matmul_run(void* plan, void* stream, void const* a, void const* b, void const* bias, void const* residual,
                   void* y, void* workspace, char* text, size_t text_bytes);

}  // namespace refactor::cuda_emulator
