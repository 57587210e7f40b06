#include "cuda/library.h"

#include "common/error.h"
#include "mem_manager/device.h"
#include "mem_manager/device_plugin.h"

namespace refactor::kernel::cuda {

namespace {

/// Room for the messages of the compiler.
constexpr size_t kTextBytes = 4096;

/// Calls `function` with a buffer for its complaint and throws what it reports.
template <class F>
void check(mem_manager::Device const& device, char const* call, F&& function) {
    char text[kTextBytes];
    text[0] = '\0';
    auto code = function(text, sizeof text);
    if (code == 0) return;
    auto where = std::string(device.kind()) + ':' + std::to_string(device.ordinal()) + ": " + call;
    if (code == RG_OUT_OF_MEMORY) throw OutOfMemory(where + ": " + text);
    throw DeviceError(where, code, text);
}

}  // namespace

Result<Library, Rejection> Library::of(Request const& request) {
    if (request.device != "nvidia")
        return Err{Rejection{"device " + std::string(request.device) + ", expected nvidia"}};
    if (!request.place) return Err{Rejection{"the request names no device to compile for"}};
    return on(*request.place);
}

Result<Library, Rejection> Library::on(mem_manager::Device& device) {
    auto const* kernels = static_cast<RefactorDeviceKernels const*>(device.extension(RG_KERNELS_EXTENSION));
    auto const* streams = static_cast<RefactorDeviceStreams const*>(device.extension(RG_STREAMS_EXTENSION));
    if (!kernels || !streams) return Err{Rejection{"the plugin of " + device.name() + " has no table of kernels"}};
    if (kernels->bytes < sizeof(RefactorDeviceKernels) || streams->bytes < sizeof(RefactorDeviceStreams))
        return Err{Rejection{"the plugin of " + device.name() + " has a table of kernels of another version"}};
    return Library(device, kernels, streams);
}

void* Library::load(std::string const& source, std::string const& name) const {
    void* function = nullptr;
    check(*device_, "kernels.load", [&](char* text, size_t bytes) {
        return kernels_->load(device_->handle(), source.c_str(), name.c_str(), &function, text, bytes);
    });
    return function;
}

void Library::launch(void* stream, void* function, uint32_t blocks, uint32_t threads, void const* argument) const {
    check(*device_, "kernels.launch", [&](char* text, size_t bytes) {
        return kernels_->launch(device_->handle(), stream, function, blocks, threads, argument, text, bytes);
    });
}

void* Library::matmul_create(RefactorMatMul const& product, size_t& workspace_bytes) const {
    void* plan = nullptr;
    check(*device_, "kernels.matmul_create", [&](char* text, size_t bytes) {
        return kernels_->matmul_create(device_->handle(), &product, &plan, &workspace_bytes, text, bytes);
    });
    return plan;
}

void Library::matmul_run(void* plan, void* stream, RefactorMatMulOperands const& operands) const {
    check(*device_, "kernels.matmul_run",
          [&](char* text, size_t bytes) { return kernels_->matmul_run(plan, stream, &operands, text, bytes); });
}

int Library::capability() const { return kernels_->capability(device_->handle()); }

void Library::copy(void* stream, void* target, void const* source, size_t bytes) const {
    check(*device_, "streams.copy_within", [&](char* text, size_t text_bytes) {
        return streams_->copy_within(device_->handle(), stream, target, source, bytes, text, text_bytes);
    });
}

std::string id_of(std::string_view op, std::string_view algorithm, DataType dtype) {
    return std::string(op).append(":nvidia:").append(algorithm).append(":").append(name_of(dtype));
}

Result<Request, Rejection> host_request(Request const& request) {
    for (auto const* list : {&request.inputs, &request.outputs})
        for (auto const& operand : *list) {
            if (operand.absent()) continue;
            if (operand.layout != Layout::Plain) return Err{Rejection{"blocked layout, expected plain"}};
        }
    auto on_host = request;
    on_host.device = "cpu", on_host.place = nullptr;
    return on_host;
}

}  // namespace refactor::kernel::cuda
