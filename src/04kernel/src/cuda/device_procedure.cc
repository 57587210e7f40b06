#include "cuda/device_procedure.h"

#include "common/error.h"
#include "common/log.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"

namespace refactor::kernel::cuda {

using mem_manager::Blob;
using runtime::Value;

namespace {

/// What kernels read and write begins at a multiple of so many bytes.
constexpr size_t kAlignment = 64;

class DeviceState final : public runtime::ProcedureState {
    std::unique_ptr<mem_manager::Stream> stream_;

public:
    mem_manager::Stream& stream_on(mem_manager::Device& device) {
        if (!stream_ || &stream_->device() != &device) stream_ = std::make_unique<mem_manager::Stream>(device);
        return *stream_;
    }
};

}  // namespace

DeviceCall::DeviceCall(Library const& library, runtime::CallContext const& context)
    : library_(library),
      context_(context),
      stream_(
          static_cast<DeviceState&>(*context.state).stream_on(context.device ? *context.device : library.device())) {}

// Memory is not given up before the work with it is done.
DeviceCall::~DeviceCall() {
    try {
        stream_.synchronize();
    } catch (Error const& error) {
        log(LogLevel::Debug, std::string("after a failed call: ") + error.what());
    }
}

void const* DeviceCall::here(Value const& value) {
    auto const& device = value.blob->device();
    auto bytes = storage_bytes(value.dtype, value.count());
    bool aligned = reinterpret_cast<uintptr_t>(value.blob->data()) % kAlignment == 0;
    if (&device == &stream_.device() && aligned) return value.blob->data();
    auto* copy = scratch(static_cast<int64_t>(bytes));
    if (device.kind() == stream_.device().kind())
        stream_.copy_from_peer(copy, device, value.blob->data(), bytes);
    else
        stream_.copy_from_host(copy, value.blob->data(), bytes);
    return copy;
}

Argument DeviceCall::argument(Value const& value) { return {row_major(value.dtype, value.dims), here(value)}; }

void* DeviceCall::make(Value& target, DataType dtype, Dims const& dims) {
    auto bytes = storage_bytes(dtype, element_count(dims));
    auto& blob = target.blob;
    bool fits = blob && blob.use_count() == 1 && &blob->device() == &stream_.device() && blob->bytes() == bytes;
    auto memory = fits ? std::move(blob) : Blob::make(stream_.device(), bytes);
    target = {dtype, dims, std::move(memory)};
    return target.blob->data();
}

void* DeviceCall::scratch(int64_t bytes) {
    return held_.emplace_back(Blob::make(stream_.device(), static_cast<size_t>(bytes)))->data();
}

void DeviceCall::launch(GeneratedLaunch const& launch, std::initializer_list<void const*> arguments) {
    std::vector<void*> addresses;
    for (auto const* address : arguments) addresses.push_back(const_cast<void*>(address));
    start(library_, launch, addresses.data(), {*context_.pool, nullptr, stream_.native()});
}

void DeviceCall::run(Kernel const& kernel, std::span<Argument const> inputs, std::span<Argument const> outputs,
                     std::span<int64_t const> params) {
    std::vector<TensorDesc const*> in, out;
    std::vector<void*> addresses;
    for (auto const& argument : inputs) in.push_back(&argument.type);
    for (auto const& argument : outputs) out.push_back(&argument.type);
    for (auto list : {inputs, outputs})
        for (auto const& argument : list) addresses.push_back(const_cast<void*>(argument.data));
    PackCache packs;
    auto task = kernel.bind({in, out, params, packs, 1});
    if (!task) throw Unsupported(kernel.id() + ": " + task.error().reason);
    auto* workspace = static_cast<std::byte*>(scratch(static_cast<int64_t>((*task)->workspace_bytes())));
    (*task)->run(addresses.data(), {*context_.pool, workspace, stream_.native()});
}

int64_t DeviceCall::read(int64_t const* source) {
    int64_t number = 0;
    stream_.copy_to_host(&number, source, sizeof number);
    return number;
}

std::unique_ptr<runtime::ProcedureState> DeviceProcedure::make_state() const { return std::make_unique<DeviceState>(); }

void DeviceProcedure::call(Inputs inputs, Outputs outputs, runtime::CallContext const& context) const {
    DeviceCall call(library_, context);
    compute(call, inputs, outputs);
    call.finish();
}

}  // namespace refactor::kernel::cuda
