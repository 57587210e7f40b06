#include "cuda_plugin/tables.h"

#include <nvtx3/nvToolsExt.h>

namespace refactor::cuda_plugin {

namespace {

/// Null if no tool is attached to the process: NVTX then has nothing to call.
nvtxDomainHandle_t domain() {
    static auto handle = nvtxDomainCreateA("refactor_graph");
    return handle;
}

int32_t enabled() { return domain() != nullptr; }

void push(char const* name) {
    nvtxEventAttributes_t attributes{};
    attributes.version = NVTX_VERSION, attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII, attributes.message.ascii = name;
    nvtxDomainRangePushEx(domain(), &attributes);
}

void pop() { nvtxDomainRangePop(domain()); }

}  // namespace

RefactorDeviceRanges const& range_table() {
    static constexpr RefactorDeviceRanges kTable{sizeof(RefactorDeviceRanges), enabled, push, pop};
    return kTable;
}

}  // namespace refactor::cuda_plugin
