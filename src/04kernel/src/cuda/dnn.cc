#include "cuda/dnn.h"

#include "common/error.h"
#include "mem_manager/device.h"
#include "mem_manager/device_plugin.h"

namespace refactor::kernel::cuda {

namespace {

constexpr size_t kTextBytes = 2048;

}  // namespace

Result<Dnn, Rejection> Dnn::of(Request const& request) {
    if (request.device != "nvidia")
        return Err{Rejection{"device " + std::string(request.device) + ", expected nvidia"}};
    if (!request.place) return Err{Rejection{"the request names no device to compile for"}};
    auto const* table = static_cast<RefactorDeviceDnn const*>(request.place->extension(RG_DNN_EXTENSION));
    if (!table) return Err{Rejection{"the plugin of " + request.place->name() + " was built without cuDNN"}};
    if (table->bytes < sizeof(RefactorDeviceDnn))
        return Err{Rejection{"the plugin of " + request.place->name() + " has a table of cuDNN of another version"}};
    char text[kTextBytes] = "";
    if (table->version(text, sizeof text) != 0) return Err{Rejection{text}};
    return Dnn(*request.place, table);
}

template <class T, class F>
Result<DnnPlan, Rejection> Dnn::plan(T const& asked, int rank, F function) const {
    char text[kTextBytes] = "";
    void* native = nullptr;
    DnnPlan plan;
    auto code = function(device_->handle(), &asked, rank, &native, &plan.workspace_bytes, text, sizeof text);
    if (code == RG_OUT_OF_MEMORY) throw OutOfMemory(text);
    if (code != 0) return Err{Rejection{text}};
    plan.native = std::shared_ptr<void>(native, table_->destroy);
    return plan;
}

Result<DnnPlan, Rejection> Dnn::convolution(RefactorConvolution const& convolution, int rank) const {
    return plan(convolution, rank, table_->convolution_create);
}

Result<DnnPlan, Rejection> Dnn::attention(RefactorAttention const& attention, int rank) const {
    return plan(attention, rank, table_->attention_create);
}

void Dnn::run(DnnPlan const& plan, void* stream, void const* const* operands, void* y, void* workspace) const {
    char text[kTextBytes] = "";
    auto code = table_->run(plan.native.get(), stream, operands, y, workspace, text, sizeof text);
    if (code == 0) return;
    auto where = std::string(device_->kind()) + ':' + std::to_string(device_->ordinal()) + ": dnn.run";
    if (code == RG_OUT_OF_MEMORY) throw OutOfMemory(where + ": " + text);
    throw DeviceError(where, code, text);
}

}  // namespace refactor::kernel::cuda
