#include "cuda_plugin/device.h"
#include "cuda_plugin/streams.h"
#include "cuda_plugin/tables.h"

namespace refactor::cuda_plugin {

namespace {

int32_t create(void* device, void** event, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    cudaEvent_t fresh = nullptr;
    RG_CUDA_CALL(cudaEventCreate(&fresh));
    *event = fresh;
    return 0;
}

void destroy(void* device, void* event) {
    CurrentGpu current(*static_cast<Gpu*>(device));
    cudaEventDestroy(static_cast<cudaEvent_t>(event));
}

int32_t record(void* device, void* stream, void* event, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    RG_CUDA_CALL(cudaEventRecord(static_cast<cudaEvent_t>(event), native(stream)));
    return 0;
}

int32_t elapsed(void* device, void* first, void* last, double* nanoseconds, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    float milliseconds = 0;
    RG_CUDA_CALL(cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(first), static_cast<cudaEvent_t>(last)));
    *nanoseconds = 1e6 * milliseconds;
    return 0;
}

}  // namespace

RefactorDeviceEvents const& event_table() {
    static constexpr RefactorDeviceEvents kTable{sizeof(RefactorDeviceEvents), create, destroy, record, elapsed};
    return kTable;
}

}  // namespace refactor::cuda_plugin
