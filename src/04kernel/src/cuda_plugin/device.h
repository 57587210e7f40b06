#pragma once
#include "cuda_plugin/turns.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include <cublasLt.h>
#include <cuda_runtime.h>

/// The inside of `librefactor_cuda.so`: links NVIDIA's libraries and nothing of the core, whose C headers it includes.
namespace refactor::cuda_plugin {

/// A kernel of generated code.
struct Function {
    cudaKernel_t kernel = nullptr;
    bool waits = false;  ///< for the end of what was launched before, so that it may be launched earlier
};

/// One GPU, opened once and never closed.
struct Gpu {
    int ordinal = 0, capability = 0;
    std::string name, architecture;  ///< "NVIDIA H200", "sm_90"
    bool has_pools = false;          ///< stream-ordered allocation works
    cudaStream_t memory_stream = nullptr;
    std::mutex mutex;  ///< of what follows
    cublasLtHandle_t cublas = nullptr;
    std::unordered_map<std::string, Function> functions;  ///< by source and name
    Turns compiling;                                      ///< by the same; not under `mutex`
};

/// Makes a GPU the calling thread's current one, and puts the former back. A thread has the number of a device before
/// it has its context, which libraries need: only `cudaSetDevice` gives it.
class CurrentGpu {
    int former_ = -1;

public:
    explicit CurrentGpu(Gpu const& gpu) {
        int now = -1;
        if (cudaGetDevice(&now) == cudaSuccess && now != gpu.ordinal) former_ = now;
        cudaSetDevice(gpu.ordinal);
    }
    ~CurrentGpu() {
        if (former_ >= 0) cudaSetDevice(former_);
    }
    CurrentGpu(CurrentGpu const&) = delete;
    CurrentGpu& operator=(CurrentGpu const&) = delete;
};

/// While a stream of the calling thread is recorded, allocations would spoil the recording; those of libraries that
/// open a handle are none of its business.
class Unrecorded {
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;

public:
    Unrecorded() { cudaThreadExchangeStreamCaptureMode(&mode_); }
    ~Unrecorded() { cudaThreadExchangeStreamCaptureMode(&mode_); }
    Unrecorded(Unrecorded const&) = delete;
    Unrecorded& operator=(Unrecorded const&) = delete;
};

/// NVRTC opens its builtins by name only, which fails where its folder is not searched: load them from there first.
/// cuDNN compiles by the same NVRTC.
void load_builtins();

/// Where a function of the tables writes its complaint.
struct Complaint {
    char* text;
    size_t bytes;
    void write(char const* format, ...) const __attribute__((format(printf, 2, 3)));
};

/// 0, or the code of the failed call (`RG_OUT_OF_MEMORY` for that), with the call's text and CUDA's in
/// `complaint`.
int32_t report(cudaError_t error, char const* call, Complaint complaint);
int32_t report(cublasStatus_t status, char const* call, Complaint complaint);

}  // namespace refactor::cuda_plugin

/// Returns from the function around it if a CUDA or cuBLAS call fails.
#define RG_CUDA_CALL(call)                                                                            \
    do {                                                                                              \
        if (auto rg_code = ::refactor::cuda_plugin::report((call), #call, complaint)) return rg_code; \
    } while (false)
