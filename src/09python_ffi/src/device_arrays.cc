#include "device_arrays.h"

#include "arrays.h"
#include "buffers.h"
#include "common/error.h"
#include "common/log.h"
#include "dlpack.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "mem_manager/stream.h"

#include <array>

#include <pybind11/stl.h>

namespace refactor::python {

using mem_manager::Blob;
using mem_manager::Device;
using runtime::PortInfo;
using runtime::Value;

namespace {

constexpr uint64_t kReadOnly = 1;
/// The consumer's stream: the legacy default stream, and none at all.
constexpr int64_t kLegacyStream = 1, kNoOrder = -1;

struct Named {
    DataType type;
    dlpack::DataType dlpack;
    char const* typestr;  ///< of `__cuda_array_interface__`; null: it has no name there
};
constexpr Named kTypes[] = {
    {DataType::F32, {2, 32, 1}, "<f4"},
    {DataType::F64, {2, 64, 1}, "<f8"},
    {DataType::F16, {2, 16, 1}, "<f2"},
    {DataType::BF16, {4, 16, 1}, nullptr},
    {DataType::I8, {0, 8, 1}, "|i1"},
    {DataType::I16, {0, 16, 1}, "<i2"},
    {DataType::I32, {0, 32, 1}, "<i4"},
    {DataType::I64, {0, 64, 1}, "<i8"},
    {DataType::U8, {1, 8, 1}, "|u1"},
    {DataType::U16, {1, 16, 1}, "<u2"},
    {DataType::U32, {1, 32, 1}, "<u4"},
    {DataType::U64, {1, 64, 1}, "<u8"},
    {DataType::Bool, {6, 8, 1}, "|b1"},
    {DataType::Complex64, {5, 64, 1}, "<c8"},
    {DataType::Complex128, {5, 128, 1}, "<c16"},
    {DataType::F8E4M3FN, {10, 8, 1}, nullptr},
    {DataType::F8E5M2, {12, 8, 1}, nullptr},
};

Named const& names_of(DataType type) {
    for (auto const& entry : kTypes)
        if (entry.type == type) return entry;
    throw Unsupported("tensors of type " + std::string(name_of(type)) + " cannot be shared with other libraries");
}

[[noreturn]] void refuse(PortInfo const& port, std::string const& why) {
    throw InvalidInput("input \"" + port.name + "\": " + why);
}

void check_type(PortInfo const& port, DataType type, Dims const& dims) {
    if (type != port.dtype && port.dtype != DataType::Undefined)
        refuse(port,
               "expected " + std::string(name_of(port.dtype)) + port.shape + ", got " + runtime::describe(type, dims));
}

/// Strides, in units of which `unit` make an element, of a tensor in row-major order.
bool is_row_major(Dims const& dims, std::span<int64_t const> strides, int64_t unit) {
    auto expected = unit;
    for (size_t i = dims.size(); i-- > 0;) {
        if (dims[i] != 1 && strides[i] != expected) return element_count(dims) == 0;
        expected *= dims[i];
    }
    return true;
}

[[noreturn]] void refuse_order(PortInfo const& port) {
    refuse(port, "a tensor on a GPU must be contiguous in row-major order (call its contiguous() first)");
}

/// A capsule's tensor, which is ours from now on.
template <class Managed>
Value take(Managed* managed, PortInfo const& port) {
    auto const& tensor = managed->dl_tensor;
    auto release = [managed] {
        if (managed->deleter) managed->deleter(managed);
    };
    Value value;
    value.dims.assign(tensor.shape, tensor.shape + tensor.ndim);
    for (auto const& entry : kTypes)
        if (entry.dlpack == tensor.dtype) value.dtype = entry.type;
    std::vector<int64_t> strides;
    if (tensor.strides) strides.assign(tensor.strides, tensor.strides + tensor.ndim);
    auto bytes = storage_bytes(value.dtype, element_count(value.dims));
    auto* data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
    auto& device = mem_manager::find_device(
        "nvidia", tensor.device.device_type == dlpack::kCUDAHost ? 0 : tensor.device.device_id);
    // From here on the blob gives the tensor back, whatever happens.
    value.blob = tensor.device.device_type == dlpack::kCUDAHost ? Blob::wrap_pinned(device, data, bytes, release)
                                                                : Blob::wrap(device, data, bytes, release);
    check_type(port, value.dtype, value.dims);
    if (!strides.empty() && !is_row_major(value.dims, strides, 1)) refuse_order(port);
    return value;
}

Value from_capsule(py::object const& capsule, PortInfo const& port) {
    for (auto const* name : {"dltensor_versioned", "dltensor"}) {
        if (!PyCapsule_IsValid(capsule.ptr(), name)) continue;
        auto* pointer = PyCapsule_GetPointer(capsule.ptr(), name);
        bool versioned = std::string_view(name) == "dltensor_versioned";
        if (versioned && static_cast<dlpack::ManagedTensorVersioned*>(pointer)->version.major != 1)
            refuse(port, "DLPack of another version than 1");
        PyCapsule_SetName(capsule.ptr(), versioned ? "used_dltensor_versioned" : "used_dltensor");
        return versioned ? take(static_cast<dlpack::ManagedTensorVersioned*>(pointer), port)
                         : take(static_cast<dlpack::ManagedTensor*>(pointer), port);
    }
    refuse(port, "__dlpack__ gave no capsule of DLPack");
}

Value from_dlpack(py::handle object, PortInfo const& port, mem_manager::Stream* stream, bool on_device) {
    py::dict arguments;
    bool shared = on_device && stream && stream->can_share();
    if (shared) arguments["stream"] = stream->shared_number();
    py::object capsule;
    try {
        arguments["max_version"] = py::make_tuple(1, 0);
        capsule = object.attr("__dlpack__")(**arguments);
    } catch (py::error_already_set& error) {
        if (!error.matches(PyExc_TypeError)) throw;
        // Before DLPack 1.0 there was no such argument.
        arguments.attr("pop")("max_version");
        capsule = object.attr("__dlpack__")(**arguments);
    }
    auto value = from_capsule(capsule, port);
    if (on_device && !shared) mem_manager::wait_for_device(value.blob->device());
    return value;
}

Value from_cuda_array(py::handle object, PortInfo const& port, mem_manager::Stream* stream) {
    auto description = object.attr("__cuda_array_interface__").cast<py::dict>();
    auto address = reinterpret_cast<void*>(description["data"].cast<py::tuple>()[0].cast<uint64_t>());
    auto typestr = description["typestr"].cast<std::string>();
    Value value;
    for (auto size : description["shape"].cast<py::tuple>()) value.dims.push_back(size.cast<int64_t>());
    for (auto const& entry : kTypes)
        if (entry.typestr && entry.typestr == typestr) value.dtype = entry.type;
    check_type(port, value.dtype, value.dims);
    if (description.contains("strides") && !description["strides"].is_none()) {
        auto strides = description["strides"].cast<std::vector<int64_t>>();
        if (!is_row_major(value.dims, strides, bits_of(value.dtype) / 8)) refuse_order(port);
    }
    if (description.contains("mask") && !description["mask"].is_none())
        refuse(port, "masked arrays make no sense here");
    auto bytes = storage_bytes(value.dtype, element_count(value.dims));
    auto& device = mem_manager::find_device("nvidia", bytes ? mem_manager::owner_of(address) : 0);
    auto held = py::reinterpret_borrow<py::object>(object).release().ptr();
    value.blob = Blob::wrap(device, address, bytes, [held] { release_object(held); });
    auto producer = description.contains("stream") ? py::object(description["stream"]) : py::none();
    if (!producer.is_none()) {
        if (stream && stream->can_share())
            stream->wait_for(producer.cast<uint64_t>());
        else
            mem_manager::wait_for_device(device);
    }
    return value;
}

/// The last owner of memory that other libraries have worked with, in an order of their own, frees it when they are
/// through.
void let_go(std::shared_ptr<Blob>& blob) noexcept {
    try {
        if (blob && blob.use_count() == 1) mem_manager::wait_for_device(blob->device());
    } catch (Error const& error) {
        log(LogLevel::Debug, std::string("before memory is freed: ") + error.what());
    }
    blob = nullptr;
}

/// What an exported tensor keeps alive.
struct Export {
    std::shared_ptr<Blob> blob;
    Dims dims;
    ~Export() { let_go(blob); }
};

template <class Managed>
py::object capsule_of(Value const& value, dlpack::Device device, char const* name, bool copied) {
    auto owner = std::unique_ptr<Export>(new Export{value.blob, value.dims});
    auto managed = std::make_unique<Managed>();
    if constexpr (requires { managed->flags; }) managed->flags = copied ? dlpack::kIsCopied : 0;
    auto& tensor = managed->dl_tensor;
    tensor.data = value.blob->data(), tensor.device = device;
    tensor.ndim = static_cast<int32_t>(value.dims.size()), tensor.shape = owner->dims.data();
    tensor.dtype = names_of(value.dtype).dlpack;
    managed->deleter = [](Managed* self) {
        delete static_cast<Export*>(self->manager_ctx);
        delete self;
    };
    auto* capsule = PyCapsule_New(managed.get(), name, [](PyObject* self) {
        // A capsule that nobody took still owns its tensor.
        auto const* own = PyCapsule_GetName(self);
        if (!own || std::string_view(own).starts_with("used")) return;
        auto* left = static_cast<Managed*>(PyCapsule_GetPointer(self, own));
        left->deleter(left);
    });
    if (!capsule) throw py::error_already_set();
    managed.release()->manager_ctx = owner.release();
    return py::reinterpret_steal<py::object>(capsule);
}

dlpack::Device place_of(Device const& device) {
    return device.kind() == "cpu" ? dlpack::Device{} : dlpack::Device{dlpack::kCUDA, device.ordinal()};
}

}  // namespace

DeviceArray::~DeviceArray() {
    if (shared_) let_go(value_.blob);
}

Device& DeviceArray::device() const { return value_.blob->device(); }

void DeviceArray::settle_for(std::optional<uint64_t> stream) const {
    if (ready_in_ && ready_in_ != stream) mem_manager::wait_for_device(device());
}

py::tuple DeviceArray::dlpack_device() const {
    auto place = place_of(device());
    return py::make_tuple(static_cast<int>(place.device_type), place.device_id);
}

py::object DeviceArray::dlpack(std::optional<int64_t> stream, py::object const& max_version,
                               std::optional<std::pair<int, int>> wanted, bool copied) const {
    auto place = place_of(device());
    if (wanted && *wanted != std::pair(static_cast<int>(place.device_type), static_cast<int>(place.device_id)))
        throw py::buffer_error("the tensor is on " + device().name() + ": __dlpack__ moves it to no other device");
    auto value = value_;
    if (copied) {
        settle_for(std::nullopt);
        value.blob = Blob::make(device(), value_.blob->bytes());
        device().copy_within(value.blob->data(), value_.blob->data(), value_.blob->bytes());
    } else {
        // No stream means the legacy default one; a consumer that passes -1 keeps order itself.
        if (stream != kNoOrder) settle_for(static_cast<uint64_t>(stream.value_or(kLegacyStream)));
        shared_ = true;
    }
    bool versioned = !max_version.is_none() && max_version[py::int_(0)].cast<int>() >= 1;
    return versioned ? capsule_of<dlpack::ManagedTensorVersioned>(value, place, "dltensor_versioned", copied)
                     : capsule_of<dlpack::ManagedTensor>(value, place, "dltensor", copied);
}

py::dict DeviceArray::cuda_array_interface() const {
    auto const* typestr = names_of(value_.dtype).typestr;
    if (device().kind() == "cpu" || !typestr) {
        auto what = device().kind() == "cpu" ? "a tensor on the host" : std::string(name_of(value_.dtype));
        throw py::attribute_error("__cuda_array_interface__ cannot describe " + what);
    }
    shared_ = true;
    py::dict description;
    py::tuple shape(value_.dims.size());
    for (size_t i = 0; i < value_.dims.size(); ++i) shape[i] = value_.dims[i];
    description["shape"] = shape;
    description["typestr"] = typestr;
    description["data"] = py::make_tuple(reinterpret_cast<uint64_t>(value_.blob->data()), false);
    description["strides"] = py::none();
    description["version"] = 3;
    // 0 is not allowed: the legacy default stream is 1.
    description["stream"] = ready_in_ ? py::object(py::int_(std::max<uint64_t>(*ready_in_, 1))) : py::none();
    return description;
}

py::object DeviceArray::numpy() const {
    settle_for(std::nullopt);
    return py::reinterpret_steal<py::object>(to_array(on_host(value_)));
}

std::optional<Value> device_value(py::handle object, PortInfo const& port, mem_manager::Stream* stream) {
    if (port.kind != runtime::ValueKind::Tensor) return std::nullopt;
    if (py::isinstance<DeviceArray>(object)) {
        auto const& array = object.cast<DeviceArray const&>();
        check_type(port, array.value().dtype, array.value().dims);
        array.settle_for(std::nullopt);
        return array.value();
    }
    if (py::hasattr(object, "__dlpack_device__")) {
        auto type = object.attr("__dlpack_device__")().cast<py::tuple>()[0].cast<int>();
        bool on_device = type == dlpack::kCUDA || type == dlpack::kCUDAManaged;
        if (on_device || type == dlpack::kCUDAHost) return from_dlpack(object, port, stream, on_device);
        return std::nullopt;
    }
    if (py::hasattr(object, "__cuda_array_interface__")) return from_cuda_array(object, port, stream);
    return std::nullopt;
}

void bind_device_arrays(py::module_& module) {
    py::class_<DeviceArray>(module, "DeviceArray",
                            "A tensor where it lies: shares memory with other libraries by `__dlpack__` and "
                            "`__cuda_array_interface__`.")
        .def_property_readonly("device", &DeviceArray::device, py::return_value_policy::reference)
        .def_property_readonly("dtype",
                               [](DeviceArray const& self) { return std::string(name_of(self.value().dtype)); })
        .def_property_readonly("shape",
                               [](DeviceArray const& self) {
                                   py::tuple shape(self.value().dims.size());
                                   for (size_t i = 0; i < shape.size(); ++i) shape[i] = self.value().dims[i];
                                   return shape;
                               })
        .def_property_readonly("nbytes", [](DeviceArray const& self) { return self.value().blob->bytes(); })
        .def("numpy", &DeviceArray::numpy, "A numpy array of the host; a copy, if the tensor is on another device.")
        .def("__dlpack_device__", &DeviceArray::dlpack_device)
        .def(
            "__dlpack__",
            [](DeviceArray const& self, std::optional<int64_t> stream, py::object const& max_version,
               std::optional<std::pair<int, int>> dl_device,
               std::optional<bool> copy) { return self.dlpack(stream, max_version, dl_device, copy.value_or(false)); },
            py::kw_only(), py::arg("stream") = py::none(), py::arg("max_version") = py::none(),
            py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
        .def_property_readonly("__cuda_array_interface__", &DeviceArray::cuda_array_interface)
        .def("__repr__", [](DeviceArray const& self) {
            return "<DeviceArray " + describe(self.value()) + " on " + self.device().name() + ">";
        });
}

}  // namespace refactor::python
