#include "common/error.h"
#include "custom_python.h"
#include "device_arrays.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "mem_manager/stream.h"
#include "runtime/operator_error.h"
#include "runtime/procedure.h"

namespace refactor::python {

using mem_manager::Blob;
using mem_manager::Device;
using mem_manager::Stream;
using runtime::OperatorError;
using runtime::Value;

namespace {

thread_local std::optional<uint64_t> stream_of_call;

/// Calls may be nested: a function may run other models.
class StreamOfCall {
    std::optional<uint64_t> outer_ = stream_of_call;

public:
    explicit StreamOfCall(Stream const& stream) {
        stream_of_call = stream.can_share() ? std::optional(stream.shared_number()) : std::nullopt;
    }
    ~StreamOfCall() { stream_of_call = outer_; }
    StreamOfCall(StreamOfCall const&) = delete;
    StreamOfCall& operator=(StreamOfCall const&) = delete;
};

class StreamState final : public runtime::ProcedureState {
    std::unique_ptr<Stream> stream_;

public:
    Stream& on(Device& device) {
        if (!stream_ || &stream_->device() != &device) stream_ = std::make_unique<Stream>(device);
        return *stream_;
    }
};

class DevicePythonProcedure final : public runtime::Procedure {
    Held compute_, attributes_;
    frontend::ResultCheck check_;
    std::string id_, device_;

    static Value on_device(Value const& value, Stream& stream) {
        auto& device = value.blob->device();
        if (&device == &stream.device()) return value;
        auto copy = value;
        auto bytes = storage_bytes(value.dtype, value.count());
        copy.blob = Blob::make(stream.device(), bytes);
        if (device.kind() == stream.device().kind())
            stream.copy_from_peer(copy.blob->data(), device, value.blob->data(), bytes);
        else
            stream.copy_from_host(copy.blob->data(), value.blob->data(), bytes);
        return copy;
    }

    Value result(py::handle object, size_t i, Stream& stream) const {
        runtime::PortInfo port;
        port.name = "output " + std::to_string(i), port.dtype = DataType::Undefined;
        auto refuse = [&](std::string const& what) {
            throw OperatorError(port.name + " is " + what + ", expected a tensor on " + stream.device().name() +
                                ", announced as " + check_.expected(i));
        };
        std::optional<Value> value;
        try {
            value = device_value(object, port, &stream);
        } catch (InvalidInput const& error) {
            throw OperatorError(port.name + " cannot be taken: " + error.message());
        }
        if (!value) refuse(std::string("an object of type ") + Py_TYPE(object.ptr())->tp_name + " on the host");
        if (&value->blob->device() != &stream.device())
            refuse(describe(*value) + " on " + value->blob->device().name());
        return *value;
    }

public:
    DevicePythonProcedure(Held compute, Held attributes, frontend::ProcedureContext const& context,
                          std::string const& name, std::string device)
        : compute_(std::move(compute)),
          attributes_(std::move(attributes)),
          check_(context),
          id_("custom:" + device + ":python:" + name),
          device_(std::move(device)) {}
    std::string id() const override { return id_; }
    std::string_view device_kind() const override { return device_; }
    std::unique_ptr<runtime::ProcedureState> make_state() const override { return std::make_unique<StreamState>(); }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const& context) const override {
        auto& device = context.device ? *context.device : mem_manager::find_device(device_, 0);
        auto& stream = static_cast<StreamState&>(*context.state).on(device);
        std::vector<std::optional<Value>> operands;
        for (auto* input : inputs) operands.push_back(input ? std::optional(on_device(*input, stream)) : std::nullopt);
        stream.synchronize();
        std::vector<Value> results;
        {
            py::gil_scoped_acquire gil;
            StreamOfCall scope(stream);
            try {
                py::list arrays;
                for (auto& operand : operands)
                    arrays.append(operand ? py::cast(DeviceArray(std::move(*operand), std::nullopt)) : py::none());
                py::list made = borrow(compute_)(arrays, borrow(attributes_), outputs.size());
                for (size_t i = 0; i < outputs.size(); ++i) results.push_back(result(made[i], i, stream));
            } catch (py::error_already_set& error) {
                throw_what_failed(error);
            }
        }
        // What comes next is in other streams.
        stream.synchronize();
        check_.check(inputs, results);
        std::move(results.begin(), results.end(), outputs.begin());
    }
};

}  // namespace

frontend::ProcedurePtr make_device_procedure(Held compute, Held attributes, frontend::ProcedureContext const& context,
                                             std::string const& name, std::string const& device) {
    return std::make_shared<DevicePythonProcedure>(std::move(compute), std::move(attributes), context, name, device);
}

std::optional<uint64_t> current_stream() { return stream_of_call; }

}  // namespace refactor::python
