#pragma once
#include "module.h"
#include "runtime/plan.h"
#include "runtime/value.h"

#include <optional>
#include <utility>

namespace refactor::mem_manager {
class Stream;
}

namespace refactor::python {

/// A tensor where it lies, on whatever device: what `get_output_blob` gives and `set_input_blob` takes. Speaks DLPack
/// and `__cuda_array_interface__`.
class DeviceArray {
    runtime::Value value_;
    std::optional<uint64_t> ready_in_;
    mutable bool shared_ = false;  ///< another library has seen the memory

public:
    /// `ready_in`: the stream of another library in whose order the content is complete; nothing: it is now.
    DeviceArray(runtime::Value value, std::optional<uint64_t> ready_in)
        : value_(std::move(value)), ready_in_(ready_in) {}
    ~DeviceArray();
    DeviceArray(DeviceArray&&) = default;

    runtime::Value const& value() const { return value_; }
    mem_manager::Device& device() const;
    /// Waits until the content is complete for a consumer that works in `stream`.
    void settle_for(std::optional<uint64_t> stream) const;
    py::tuple dlpack_device() const;
    /// `wanted`: a device; raises BufferError for another one than the tensor's. `copied`: a tensor of its own.
    py::object dlpack(std::optional<int64_t> stream, py::object const& max_version,
                      std::optional<std::pair<int, int>> wanted, bool copied) const;
    py::dict cuda_array_interface() const;
    py::object numpy() const;
};

/// The value of a tensor that another library holds in the memory of a GPU (or in pinned host memory), without a copy,
/// if `object` is one: by `DeviceArray`, `__dlpack__` or `__cuda_array_interface__`. What is put into `stream` from now
/// on starts after the work that makes the content; without a stream that is waited for. Throws `InvalidInput` naming
/// the port if type or memory order do not fit; any type fits a port of `DataType::Undefined`.
std::optional<runtime::Value> device_value(py::handle object, runtime::PortInfo const& port,
                                           mem_manager::Stream* stream);

}  // namespace refactor::python
