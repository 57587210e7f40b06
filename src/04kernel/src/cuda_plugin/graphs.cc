#include "cuda_plugin/device.h"
#include "cuda_plugin/streams.h"
#include "cuda_plugin/tables.h"

namespace refactor::cuda_plugin {

namespace {

int32_t begin(void* device, void* stream, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    // Other threads may allocate and copy meanwhile.
    RG_CUDA_CALL(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal));
    return 0;
}

int32_t end(void* device, void* stream, void** graph, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    cudaGraph_t recorded = nullptr;
    RG_CUDA_CALL(cudaStreamEndCapture(native(stream), &recorded));
    cudaGraphExec_t executable = nullptr;
    auto code = report(cudaGraphInstantiate(&executable, recorded, 0), "cudaGraphInstantiate", complaint);
    cudaGraphDestroy(recorded);
    if (code) return code;
    // The first launch then costs what the others cost.
    if (auto failed = report(cudaGraphUpload(executable, native(stream)), "cudaGraphUpload", complaint)) {
        cudaGraphExecDestroy(executable);
        return failed;
    }
    *graph = executable;
    return 0;
}

int32_t launch(void* device, void* stream, void* graph, char* text, size_t text_bytes) {
    Complaint complaint{text, text_bytes};
    CurrentGpu current(*static_cast<Gpu*>(device));
    RG_CUDA_CALL(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), native(stream)));
    return 0;
}

void destroy(void* device, void* graph) {
    CurrentGpu current(*static_cast<Gpu*>(device));
    cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
}

}  // namespace

RefactorDeviceGraphs const& graph_table() {
    static constexpr RefactorDeviceGraphs kTable{sizeof(RefactorDeviceGraphs), begin, end, launch, destroy};
    return kTable;
}

}  // namespace refactor::cuda_plugin
