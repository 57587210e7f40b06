#pragma once
#include "cuda/generated.h"
#include "mem_manager/stream.h"
#include "runtime/procedure.h"

#include <initializer_list>

/// Procedures that compute on a GPU: results whose sizes the data tells. Such a size is counted on the device, read
/// once, and the launches of the results follow.
namespace refactor::kernel::cuda {

/// A tensor in the memory of the device.
struct Argument {
    TensorDesc type;
    void const* data = nullptr;
};

/// One call of a procedure: its stream, and memory until the call ends. Everything is put into one stream, in order.
class DeviceCall {
    Library const& library_;
    runtime::CallContext const& context_;
    mem_manager::Stream& stream_;
    std::vector<std::shared_ptr<mem_manager::Blob>> held_;

public:
    DeviceCall(Library const& library, runtime::CallContext const& context);
    ~DeviceCall();
    DeviceCall(DeviceCall const&) = delete;
    DeviceCall& operator=(DeviceCall const&) = delete;

    /// Where the elements of a tensor are on the device; copied there if they are not.
    void const* here(runtime::Value const& value);
    Argument argument(runtime::Value const& value);
    /// Makes `target` a tensor on the device with undefined content, in the memory that it has if nobody else does.
    void* make(runtime::Value& target, DataType dtype, Dims const& dims);
    /// Memory until the call ends; its content is undefined.
    void* scratch(int64_t bytes);
    template <class T>
    T* scratch_of(int64_t count) {
        return static_cast<T*>(scratch(count * static_cast<int64_t>(sizeof(T))));
    }
    /// `arguments`: what `launch.on` numbers.
    void launch(GeneratedLaunch const& launch, std::initializer_list<void const*> arguments);
    void run(Kernel const& kernel, std::span<Argument const> inputs, std::span<Argument const> outputs,
             std::span<int64_t const> params = {});
    void run(Kernel const& kernel, std::initializer_list<Argument> inputs, std::initializer_list<Argument> outputs,
             std::span<int64_t const> params = {}) {
        run(kernel, std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()), params);
    }
    /// Waits for a number of the device.
    int64_t read(int64_t const* source);
    /// Waits for everything; throws what failed.
    void finish() { stream_.synchronize(); }
};

class DeviceProcedure : public runtime::Procedure {
    Library library_;
    std::string id_;

protected:
    using Inputs = std::span<runtime::Value const* const>;
    using Outputs = std::span<runtime::Value>;
    Code code_;

    Library const& library() const { return library_; }
    virtual void compute(DeviceCall& call, Inputs inputs, Outputs outputs) const = 0;

public:
    DeviceProcedure(std::string id, Library const& library) : library_(library), id_(std::move(id)), code_(library) {}
    std::string id() const final { return id_; }
    std::string_view device_kind() const final { return "nvidia"; }
    std::unique_ptr<runtime::ProcedureState> make_state() const final;
    void call(Inputs inputs, Outputs outputs, runtime::CallContext const& context) const final;
};

/// The kernel of an operator for the GPU; null if there is none for these types. Sizes of operands: -1.
template <class Info>
std::unique_ptr<Kernel> kernel_for(mem_manager::Device& place, Info const& info, std::vector<TensorDesc> const& inputs,
                                   std::vector<TensorDesc> const& outputs) {
    std::vector<Operand> in, out;
    for (auto const& type : inputs) in.push_back({type, nullptr});
    for (auto const& type : outputs) out.push_back({type, nullptr});
    auto found = candidates(info, {in, out, "nvidia", Isa::Scalar, 1, Precision::Default, &place});
    return found.kernels.empty() ? nullptr : std::move(found.kernels.front());
}
inline TensorDesc row_major(DataType dtype, Dims dims) { return {dtype, Layout::Plain, std::move(dims)}; }

}  // namespace refactor::kernel::cuda
