#include "cuda_plugin/device.h"
#include "cuda_plugin/streams.h"
#include "cuda_plugin/tables.h"

namespace refactor::cuda_plugin {

namespace {

/// An event, marked in one stream and waited for by another.
class Order {
    cudaEvent_t event_ = nullptr;

public:
    ~Order() {
        if (event_) cudaEventDestroy(event_);
    }
    int32_t put(cudaStream_t before, cudaStream_t after, Complaint complaint) {
        RG_CUDA_CALL(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
        RG_CUDA_CALL(cudaEventRecord(event_, before));
        RG_CUDA_CALL(cudaStreamWaitEvent(after, event_, 0));
        return 0;
    }
};

/// The numbers 1 and 2 are handles of the runtime already; 0 is the legacy default stream too.
cudaStream_t stream_of(uint64_t foreign) {
    return foreign ? reinterpret_cast<cudaStream_t>(foreign) : cudaStreamLegacy;
}

uint64_t number_of(void* stream) { return reinterpret_cast<uint64_t>(native(stream)); }

int32_t wait_for(void* device, void* stream, uint64_t foreign, char* text, size_t text_bytes) {
    CurrentGpu current(*static_cast<Gpu*>(device));
    return Order().put(stream_of(foreign), native(stream), {text, text_bytes});
}

int32_t release_to(void* device, void* stream, uint64_t foreign, char* text, size_t text_bytes) {
    CurrentGpu current(*static_cast<Gpu*>(device));
    return Order().put(native(stream), stream_of(foreign), {text, text_bytes});
}

int32_t synchronize(void* device, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    RG_CUDA_CALL(cudaDeviceSynchronize());
    return 0;
}

int32_t owner_of(void const* address, int32_t* ordinal, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    cudaPointerAttributes attributes;
    RG_CUDA_CALL(cudaPointerGetAttributes(&attributes, address));
    bool on_device = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
    *ordinal = on_device ? attributes.device : -1;
    return 0;
}

int32_t copy_from_peer(void* device, void* stream, void* target, void* source_device, void const* source, size_t bytes,
                       char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    auto &gpu = *static_cast<Gpu*>(device), &other = *static_cast<Gpu*>(source_device);
    CurrentGpu current(gpu);
    // Without access to each other's memory the driver stages the copy.
    RG_CUDA_CALL(cudaMemcpyPeerAsync(target, gpu.ordinal, source, other.ordinal, bytes, native(stream)));
    return 0;
}

}  // namespace

RefactorDeviceInterop const& interop_table() {
    static constexpr RefactorDeviceInterop kTable{
        sizeof(RefactorDeviceInterop), number_of, wait_for, release_to, synchronize, owner_of, copy_from_peer};
    return kTable;
}

}  // namespace refactor::cuda_plugin
