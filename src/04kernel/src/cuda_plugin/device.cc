#include "cuda_plugin/device.h"

#include "cuda_plugin/tables.h"
#include "mem_manager/device_plugin.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include <dlfcn.h>

namespace refactor::cuda_plugin {

void Complaint::write(char const* format, ...) const {
    if (!bytes) return;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, bytes, format, arguments);
    va_end(arguments);
}

int32_t report(cudaError_t error, char const* call, Complaint complaint) {
    if (error == cudaSuccess) return 0;
    cudaGetLastError();  // what was reported must not surface again in the next call
    complaint.write("%s: %s (%s)", call, cudaGetErrorName(error), cudaGetErrorString(error));
    return error == cudaErrorMemoryAllocation ? RG_OUT_OF_MEMORY : static_cast<int32_t>(error);
}

int32_t report(cublasStatus_t status, char const* call, Complaint complaint) {
    if (status == CUBLAS_STATUS_SUCCESS) return 0;
    complaint.write("%s: %s", call, cublasLtGetStatusName(status));
    return static_cast<int32_t>(status);
}

namespace {

/// Free memory that the pool keeps at a synchronisation: a few outputs of a large batch. Else each of another size
/// would be mapped anew.
constexpr uint64_t kMostKept = uint64_t{256} << 20;

Gpu& gpu_of(void* device) { return *static_cast<Gpu*>(device); }

std::string version_text(int version) {
    return std::to_string(version / 1000) + '.' + std::to_string(version % 1000 / 10);
}

/// Asks the driver itself first: the runtime reports an absent driver and one that is too old alike.
int32_t check_driver(Complaint complaint) {
    auto* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        auto const* reason = dlerror();
        complaint.write("no NVIDIA driver: %s", reason ? reason : "libcuda.so.1 cannot be loaded");
        return cudaErrorInsufficientDriver;
    }
    auto initialise = reinterpret_cast<int (*)(unsigned)>(dlsym(library, "cuInit"));
    auto code = initialise ? initialise(0) : static_cast<int>(cudaErrorInsufficientDriver);
    if (code != 0) {
        auto name_of = reinterpret_cast<int (*)(int, char const**)>(dlsym(library, "cuGetErrorName"));
        char const* name = nullptr;
        if (name_of) name_of(code, &name);
        complaint.write("no NVIDIA driver: cuInit returned %d (%s)", code, name ? name : "unknown");
        return code;
    }
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver), cudaRuntimeGetVersion(&runtime);
    // Within one major version any driver runs what any toolkit built.
    if (driver / 1000 < runtime / 1000) {
        complaint.write("the NVIDIA driver supports CUDA %s, the plugin was built for %s: update the driver",
                        version_text(driver).c_str(), version_text(runtime).c_str());
        return cudaErrorInsufficientDriver;
    }
    return 0;
}

int32_t count(int32_t* devices, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    if (auto code = check_driver(complaint)) return code;
    int found = 0;
    RG_CUDA_CALL(cudaGetDeviceCount(&found));
    *devices = found;
    return 0;
}

/// Some virtual machines have memory pools by their attributes alone.
bool can_allocate_in_order(cudaStream_t stream) {
    void* block = nullptr;
    auto error = cudaMallocAsync(&block, 256, stream);
    if (error == cudaSuccess) error = cudaFreeAsync(block, stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
    if (error != cudaSuccess) cudaGetLastError();
    return error == cudaSuccess || error == cudaErrorMemoryAllocation;
}

int32_t fill(Gpu& gpu, Complaint complaint) {
    CurrentGpu current(gpu);
    cudaDeviceProp properties;
    RG_CUDA_CALL(cudaGetDeviceProperties(&properties, gpu.ordinal));
    gpu.name = properties.name;
    gpu.capability = 10 * properties.major + properties.minor;
    gpu.architecture = "sm_" + std::to_string(gpu.capability);
    if (properties.major < 8) {
        complaint.write("%s has compute capability %d.%d, at least 8.0 is needed", gpu.name.c_str(), properties.major,
                        properties.minor);
        return cudaErrorNoKernelImageForDevice;
    }
    int pools = 0;
    RG_CUDA_CALL(cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, gpu.ordinal));
    RG_CUDA_CALL(cudaStreamCreateWithFlags(&gpu.memory_stream, cudaStreamNonBlocking));
    gpu.has_pools = pools && can_allocate_in_order(gpu.memory_stream);
    if (gpu.has_pools) {
        cudaMemPool_t pool = nullptr;
        uint64_t kept = 0;
        RG_CUDA_CALL(cudaDeviceGetDefaultMemPool(&pool, gpu.ordinal));
        RG_CUDA_CALL(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
        kept = std::max(kept, kMostKept);
        RG_CUDA_CALL(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
    }
    return 0;
}

int32_t open(int32_t ordinal, void** device, char* text, size_t text_bytes) {
    static std::mutex mutex;
    static auto* gpus = new std::vector<std::unique_ptr<Gpu>>;
    std::lock_guard lock(mutex);
    if (gpus->size() <= static_cast<size_t>(ordinal)) gpus->resize(static_cast<size_t>(ordinal) + 1);
    auto& gpu = (*gpus)[static_cast<size_t>(ordinal)];
    if (!gpu) {
        auto fresh = std::make_unique<Gpu>();
        fresh->ordinal = ordinal;
        if (auto code = fill(*fresh, {text, text_bytes})) return code;
        gpu = std::move(fresh);
    }
    *device = gpu.get();
    return 0;
}

char const* name(void* device) { return gpu_of(device).name.c_str(); }

int32_t memory(void* device, size_t* free_bytes, size_t* total_bytes, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(gpu_of(device));
    RG_CUDA_CALL(cudaMemGetInfo(free_bytes, total_bytes));
    return 0;
}

/// The memory may be used on any stream: the allocation is complete on return.
int32_t allocate(void* device, size_t bytes, void** address, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    auto& gpu = gpu_of(device);
    CurrentGpu current(gpu);
    if (!gpu.has_pools) {
        RG_CUDA_CALL(cudaMalloc(address, bytes));
        return 0;
    }
    RG_CUDA_CALL(cudaMallocAsync(address, bytes, gpu.memory_stream));
    RG_CUDA_CALL(cudaStreamSynchronize(gpu.memory_stream));
    return 0;
}

/// Executors wait for their streams before they let go of memory.
void deallocate(void* device, void* address, size_t) {
    auto& gpu = gpu_of(device);
    CurrentGpu current(gpu);
    auto error = gpu.has_pools ? cudaFreeAsync(address, gpu.memory_stream) : cudaFree(address);
    if (error != cudaSuccess) cudaGetLastError();
}

int32_t copy(void* device, void* target, void const* source, size_t bytes, cudaMemcpyKind kind, Complaint complaint) {
    auto& gpu = gpu_of(device);
    CurrentGpu current(gpu);
    RG_CUDA_CALL(cudaMemcpyAsync(target, source, bytes, kind, gpu.memory_stream));
    RG_CUDA_CALL(cudaStreamSynchronize(gpu.memory_stream));
    return 0;
}

int32_t copy_from_host(void* device, void* target, void const* host, size_t bytes, char* text, size_t text_bytes) {
    return copy(device, target, host, bytes, cudaMemcpyHostToDevice, {text, text_bytes});
}

int32_t copy_to_host(void* device, void* host, void const* source, size_t bytes, char* text, size_t text_bytes) {
    return copy(device, host, source, bytes, cudaMemcpyDeviceToHost, {text, text_bytes});
}

int32_t copy_within(void* device, void* target, void const* source, size_t bytes, char* text, size_t text_bytes) {
    return copy(device, target, source, bytes, cudaMemcpyDeviceToDevice, {text, text_bytes});
}

void const* extension(char const* name) {
    if (!std::strcmp(name, RG_STREAMS_EXTENSION)) return &stream_table();
    if (!std::strcmp(name, RG_KERNELS_EXTENSION)) return &kernel_table();
    if (!std::strcmp(name, RG_DNN_EXTENSION)) return &dnn_table();
    if (!std::strcmp(name, RG_HOST_MEMORY_EXTENSION)) return &host_memory_table();
    if (!std::strcmp(name, RG_GRAPHS_EXTENSION)) return &graph_table();
    if (!std::strcmp(name, RG_EVENTS_EXTENSION)) return &event_table();
    if (!std::strcmp(name, RG_INTEROP_EXTENSION)) return &interop_table();
    if (!std::strcmp(name, RG_RANGES_EXTENSION)) return &range_table();
    return nullptr;
}

constexpr RefactorDevicePlugin kPlugin{RG_DEVICE_PLUGIN_ABI,
                                       sizeof(RefactorDevicePlugin),
                                       "nvidia",
                                       count,
                                       open,
                                       name,
                                       memory,
                                       allocate,
                                       deallocate,
                                       copy_from_host,
                                       copy_to_host,
                                       copy_within,
                                       extension};

}  // namespace

}  // namespace refactor::cuda_plugin

extern "C" __attribute__((visibility("default"))) RefactorDevicePlugin const* refactor_device_plugin_v1(
    uint32_t core_abi, char* text, size_t text_bytes) {
    if (core_abi == RG_DEVICE_PLUGIN_ABI) return &refactor::cuda_plugin::kPlugin;
    refactor::cuda_plugin::Complaint{text, text_bytes}.write("the plugin speaks interface %u", RG_DEVICE_PLUGIN_ABI);
    return nullptr;
}
