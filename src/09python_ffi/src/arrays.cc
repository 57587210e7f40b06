#include "array_parts.h"
#include "buffers.h"
#include "common/error.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"

#include <array>
#include <cstring>

#include <pybind11/numpy.h>

namespace refactor::python {

using mem_manager::Blob;
using runtime::PortInfo;
using runtime::Value;

namespace {

constexpr int kMaxRank = 32;  // of numpy 1; numpy 2 has 64

char const* numpy_name(DataType type) {
    switch (type) {
        case DataType::F32:
            return "float32";
        case DataType::U8:
            return "uint8";
        case DataType::I8:
            return "int8";
        case DataType::U16:
            return "uint16";
        case DataType::I16:
            return "int16";
        case DataType::I32:
            return "int32";
        case DataType::I64:
            return "int64";
        case DataType::Bool:
            return "bool";
        case DataType::F16:
            return "float16";
        case DataType::F64:
            return "float64";
        case DataType::U32:
            return "uint32";
        case DataType::U64:
            return "uint64";
        case DataType::Complex64:
            return "complex64";
        case DataType::Complex128:
            return "complex128";
        case DataType::BF16:
            return "bfloat16";
        case DataType::F8E4M3FN:
            return "float8_e4m3fn";
        case DataType::F8E4M3FNUZ:
            return "float8_e4m3fnuz";
        case DataType::F8E5M2:
            return "float8_e5m2";
        case DataType::F8E5M2FNUZ:
            return "float8_e5m2fnuz";
        case DataType::U4:
            return "uint4";
        case DataType::I4:
            return "int4";
        case DataType::F4E2M1:
            return "float4_e2m1fn";
        case DataType::F8E8M0:
            return "float8_e8m0fnu";
        case DataType::U2:
            return "uint2";
        case DataType::I2:
            return "int2";
        default:
            return nullptr;
    }
}

bool is_extension(DataType type) { return type >= DataType::BF16; }

/// Whether `have` holds the bits of `type`: numpy has no bf16 of its own, and ONNX's helpers and test data before 1.19,
/// `torch.view(uint16)` and onnxruntime's OrtValue keep its bits in uint16.
bool holds_bits(PyObject* have, DataType type) {
    return type == DataType::BF16 && api().PyArray_EquivTypes_(have, descriptor_of(DataType::U16));
}

/// `array` in the port's dtype, C order, aligned, native byte order; itself if it is so already.
py::object normalised(py::object array, PortInfo const& port, PyObject* wanted) {
    auto const* proxy = py::detail::array_proxy(array.ptr());
    bool same = proxy->descr == wanted || api().PyArray_EquivTypes_(proxy->descr, wanted);
    if (same && (proxy->flags & kContiguous) && (proxy->flags & kAligned)) return array;
    if (!same) {
        auto have = py::reinterpret_borrow<py::object>(proxy->descr), want = py::reinterpret_borrow<py::object>(wanted);
        auto order = have.attr("byteorder").cast<std::string>();
        bool swapped = order == ">" && have.attr("newbyteorder")("=").equal(want);
        if (!swapped) mismatch(port, describe_array(array.ptr()));
    }
    auto result = py::module_::import("numpy").attr("array")(array, py::reinterpret_borrow<py::object>(wanted),
                                                             py::arg("order") = "C", py::arg("copy") = true);
    return result;
}

/// Elements of 4 or 2 bits, which numpy keeps one a byte, as ONNX packs them: low bits first.
std::shared_ptr<Blob> pack(uint8_t const* source, int64_t count, int bits) {
    int per_byte = 8 / bits;
    auto blob = Blob::make(mem_manager::cpu_device(), static_cast<size_t>((count + per_byte - 1) / per_byte));
    auto* target = static_cast<uint8_t*>(blob->data());
    if (blob->bytes()) std::memset(target, 0, blob->bytes());
    for (int64_t i = 0; i < count; ++i)
        target[i / per_byte] |= static_cast<uint8_t>((source[i] & ((1 << bits) - 1)) << (i % per_byte * bits));
    return blob;
}

void unpack(DataType type, uint8_t const* source, uint8_t* target, int64_t count) {
    int bits = bits_of(type), per_byte = 8 / bits;
    for (int64_t i = 0; i < count; ++i) {
        auto value = static_cast<uint8_t>(source[i / per_byte] >> (i % per_byte * bits) & ((1 << bits) - 1));
        if (type == DataType::I4 || type == DataType::I2)  // ml_dtypes keeps the sign extended
            value = static_cast<uint8_t>(static_cast<int8_t>(value << (8 - bits)) >> (8 - bits));
        target[i] = value;
    }
}

/// An uninitialised array, or one over `data`. A new reference.
PyObject* new_array(DataType dtype, Dims const& dims, void* data) {
    auto* descriptor = descriptor_of(dtype);
    if (dims.size() > kMaxRank)
        throw Unsupported("numpy arrays have at most " + std::to_string(kMaxRank) + " dimensions, the tensor has " +
                          std::to_string(dims.size()));
    std::array<Py_intptr_t, kMaxRank> sizes;
    std::copy(dims.begin(), dims.end(), sizes.begin());
    Py_INCREF(descriptor);  // stolen by the call
    auto* array =
        api().PyArray_NewFromDescr_(api().PyArray_Type_, descriptor, static_cast<int>(dims.size()), sizes.data(),
                                    nullptr, data, data ? kContiguous | kAligned | kWriteable : 0, nullptr);
    if (!array) throw py::error_already_set();
    return array;
}

}  // namespace

std::string describe_array(PyObject* array) {
    auto const* proxy = py::detail::array_proxy(array);
    auto text = py::str(py::handle(proxy->descr)).cast<std::string>() + "[";
    for (int i = 0; i < proxy->nd; ++i) text += (i ? ", " : "") + std::to_string(proxy->dimensions[i]);
    return text + "]";
}

void mismatch(PortInfo const& port, std::string const& got) {
    throw InvalidInput("input \"" + port.name + "\": expected " + std::string(name_of(port.dtype)) + port.shape +
                       ", got " + got);
}

py::object as_array(py::handle object, PortInfo const& port) {
    if (api().PyArray_Check_(object.ptr())) return py::reinterpret_borrow<py::object>(object);
    auto numpy = py::module_::import("numpy");
    try {
        if (py::hasattr(object, "__dlpack__") && !py::isinstance(object, numpy.attr("generic")))
            return numpy.attr("from_dlpack")(object);
        if (py::hasattr(object, "__array__")) return numpy.attr("asarray")(object);
    } catch (py::error_already_set& error) {
        throw InvalidInput("input \"" + port.name + "\": " + std::string(Py_TYPE(object.ptr())->tp_name) +
                           " cannot be converted to a numpy array: " + py::str(error.value()).cast<std::string>());
    }
    mismatch(port, std::string("an object of type ") + Py_TYPE(object.ptr())->tp_name + " (give a numpy array)");
}

PyObject* descriptor_of(DataType type) {
    static std::array<PyObject*, kDataTypeCount> cache{};
    auto& entry = cache[static_cast<size_t>(type)];
    if (entry) return entry;
    auto const* name = numpy_name(type);
    if (!name) throw Unsupported("tensors of type " + std::string(name_of(type)) + " cannot be exchanged with numpy");
    auto source =
        is_extension(type) ? py::object(py::module_::import("ml_dtypes").attr(name)) : py::object(py::str(name));
    return entry = py::module_::import("numpy").attr("dtype")(source).release().ptr();
}

namespace {

/// The type of an array that may have any.
DataType type_of(py::object const& array) {
    auto dtype = array.attr("dtype");
    if (auto kind = dtype.attr("kind").cast<std::string>(); kind == "O" || kind == "U" || kind == "S" || kind == "T")
        return DataType::String;
    for (int i = 1; i < kDataTypeCount; ++i) {
        auto type = static_cast<DataType>(i);
        if (numpy_name(type) && api().PyArray_EquivTypes_(dtype.ptr(), descriptor_of(type))) return type;
    }
    return DataType::Undefined;
}

}  // namespace

Value to_value(py::handle object, PortInfo const& port, Ownership ownership) {
    if (port.kind == runtime::ValueKind::Optional) {
        if (object.is_none()) return Value::nothing();
        auto content = *port.element;
        content.name = port.name;
        return to_value(object, content, ownership);
    }
    if (port.kind == runtime::ValueKind::Sequence) return sequence_of(object, port, ownership);
    if (port.kind == runtime::ValueKind::Map) return map_of(object, port);
    if (port.dtype == DataType::String) return strings_of(object, port);
    if (port.dtype == DataType::Undefined) {
        auto any = port;
        any.dtype = type_of(as_array(object, port));
        if (any.dtype == DataType::Undefined) mismatch(port, "an array of an unknown type");
        return to_value(object, any, ownership);
    }
    auto given = as_array(object, port);
    auto* wanted = descriptor_of(port.dtype);
    if (holds_bits(py::detail::array_proxy(given.ptr())->descr, port.dtype))
        given = given.attr("view")(py::reinterpret_borrow<py::object>(wanted));
    auto array = normalised(std::move(given), port, wanted);
    auto const* proxy = py::detail::array_proxy(array.ptr());
    Value value;
    value.dtype = port.dtype;
    value.dims.assign(proxy->dimensions, proxy->dimensions + proxy->nd);
    int64_t count = 1;
    for (auto size : value.dims) count *= size;  // of an array that exists: no overflow
    auto bits = bits_of(port.dtype);
    auto bytes = storage_bytes(port.dtype, count);
    if (bits < 8)
        value.blob = pack(reinterpret_cast<uint8_t const*>(proxy->data), count, bits);
    else if (ownership == Ownership::Copy || bytes == 0)
        value.blob = Blob::copy_of(proxy->data, bytes);
    else
        value.blob = Blob::wrap(mem_manager::cpu_device(), proxy->data, bytes,
                                [held = array.release().ptr()] { release_object(held); });
    return value;
}

PyObject* to_array(Value const& value) {
    if (value.contents) return to_object(value).release().ptr();
    auto* data = value.blob->data();
    auto bits = bits_of(value.dtype);
    if (bits < 8 || !data) return copy_to_array(value.dtype, value.dims, data).release().ptr();
    auto array = py::reinterpret_steal<py::object>(new_array(value.dtype, value.dims, data));
    auto owner = std::make_unique<std::shared_ptr<Blob>>(value.blob);
    auto* capsule = PyCapsule_New(owner.get(), nullptr, [](PyObject* self) {
        delete static_cast<std::shared_ptr<Blob>*>(PyCapsule_GetPointer(self, nullptr));
    });
    if (!capsule) throw py::error_already_set();
    owner.release();
    if (api().PyArray_SetBaseObject_(array.ptr(), capsule) != 0) throw py::error_already_set();
    return array.release().ptr();
}

py::object copy_to_array(DataType dtype, Dims const& dims, void const* data) {
    auto array = py::reinterpret_steal<py::object>(new_array(dtype, dims, nullptr));
    int64_t count = 1;
    for (auto size : dims) count *= size;
    if (count == 0) return array;
    if (bits_of(dtype) < 8)
        unpack(dtype, static_cast<uint8_t const*>(data), static_cast<uint8_t*>(array_data(array.ptr())), count);
    else
        std::memcpy(array_data(array.ptr()), data, storage_bytes(dtype, count));
    return array;
}

}  // namespace refactor::python
