#include "buffers.h"
#include "common/error.h"
#include "frontend/model.h"
#include "module.h"
#include "onnx/model_builder.h"
#include "wire.h"

#include <algorithm>
#include <optional>

#include <pybind11/stl.h>

namespace refactor::python {

namespace {

using refactor::onnx::GraphBuilder;
using refactor::onnx::ModelBuilder;
using refactor::onnx::RawAttribute;
using refactor::onnx::RawTensor;

/// Numbers of AttributeProto.AttributeType.
enum class Kind : int { Float = 1, Int, String, Tensor, Graph, Floats, Ints, Strings, Type = 13 };

/// A Python sequence as a list or tuple, for access without calls.
class Sequence {
    py::object items_;

public:
    explicit Sequence(py::handle source)
        : items_(py::reinterpret_steal<py::object>(PySequence_Fast(source.ptr(), "expected a sequence"))) {
        if (!items_) throw py::error_already_set();
    }
    size_t size() const { return static_cast<size_t>(PySequence_Fast_GET_SIZE(items_.ptr())); }
    py::handle operator[](size_t i) const { return PySequence_Fast_GET_ITEM(items_.ptr(), static_cast<Py_ssize_t>(i)); }
};

/// str as UTF-8 (lone surrogates kept), or bytes.
std::string text(py::handle object) {
    if (PyBytes_Check(object.ptr()))
        return {PyBytes_AS_STRING(object.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(object.ptr()))};
    Py_ssize_t size = 0;
    if (auto const* data = PyUnicode_AsUTF8AndSize(object.ptr(), &size)) return {data, static_cast<size_t>(size)};
    throw py::error_already_set();
}

int64_t integer(py::handle object) {
    auto value = PyLong_AsLongLong(object.ptr());
    if (value == -1 && PyErr_Occurred()) throw py::error_already_set();
    return value;
}

template <class T, class Convert>
std::vector<T> list(py::handle source, Convert convert) {
    Sequence items(source);
    std::vector<T> out;
    out.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i) out.push_back(convert(items[i]));
    return out;
}

/// Types are checked by the builder: what is no known type is handed on as it is.
size_t alignment_of(int64_t dtype) {
    auto type = data_type_from_onnx(dtype);
    return type ? static_cast<size_t>(std::clamp(bits_of(*type) / 8, 1, 8)) : 1;
}

/// Without a type: a tensor that was refused.
RawTensor tensor(py::handle dtype, py::handle dims, py::handle data) {
    RawTensor out;
    if (dtype.is_none()) return out.refused = true, out;
    out.dtype = integer(dtype);
    out.dims = list<int64_t>(dims, integer);
    if (data_type_from_onnx(out.dtype) == DataType::String) {
        if (!data.is_none()) out.strings = list<std::string>(data, text);
        return out;
    }
    if (!data.is_none()) out.blob = share_buffer(data, alignment_of(out.dtype));
    return out;
}

refactor::onnx::DeclaredShape shape(py::handle dims) {
    if (dims.is_none()) return {};
    return list<refactor::onnx::DeclaredDim>(dims, [](py::handle dim) -> refactor::onnx::DeclaredDim {
        if (dim.is_none()) return std::monostate{};
        if (PyLong_Check(dim.ptr())) return integer(dim);
        return text(dim);
    });
}

/// (element type, sizes) of a tensor, (type of the keys, None, kind, type of the elements) of anything else.
refactor::onnx::DeclaredType type(py::handle source) {
    Sequence parts(source);
    refactor::onnx::DeclaredType out{integer(parts[0]), shape(parts[1])};
    if (parts.size() < 4) return out;
    out.kind = static_cast<runtime::ValueKind>(integer(parts[2]));
    out.element = std::make_shared<refactor::onnx::DeclaredType>(type(parts[3]));
    return out;
}

/// Of an AttributeProto as bytes: the elements of long lists, which take Python ten times as long to hand over.
std::optional<RawAttribute> serialized(Kind kind, py::handle value) {
    if (!PyBytes_Check(value.ptr())) return std::nullopt;
    std::string_view message(PyBytes_AS_STRING(value.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(value.ptr())));
    constexpr uint32_t kFloats = 7, kInts = 8, kStrings = 9;  // fields
    if (kind == Kind::Floats) return repeated_floats(message, kFloats);
    if (kind == Kind::Ints) return repeated_integers(message, kInts);
    if (kind == Kind::Strings) return repeated_strings(message, kStrings);
    return std::nullopt;
}

RawAttribute attribute(Kind kind, py::handle value) {
    if (auto list = serialized(kind, value)) return std::move(*list);
    auto real = [](py::handle object) { return static_cast<float>(PyFloat_AsDouble(object.ptr())); };
    switch (kind) {
        case Kind::Float:
            return real(value);
        case Kind::Int:
            return integer(value);
        case Kind::String:
            return text(value);
        case Kind::Tensor: {
            Sequence parts(value);
            return tensor(parts[0], parts[1], parts[2]);
        }
        case Kind::Graph:
            return value.cast<std::shared_ptr<GraphBuilder>>();
        case Kind::Floats:
            return list<float>(value, real);
        case Kind::Ints:
            return list<int64_t>(value, integer);
        case Kind::Strings:
            return list<std::string>(value, text);
        case Kind::Type:
            return type(value);
    }
    throw InvalidInput("unknown kind of attribute: " + std::to_string(static_cast<int>(kind)));
}

void add_node(GraphBuilder& self, py::handle name, py::handle domain, py::handle op_type, py::handle inputs,
              py::handle outputs, py::handle attributes, int64_t version) {
    Sequence items(attributes);
    refactor::onnx::RawAttributes converted;
    converted.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
        Sequence parts(items[i]);
        converted.emplace_back(text(parts[0]), attribute(static_cast<Kind>(integer(parts[1])), parts[2]));
    }
    self.add_node(text(name), text(domain), text(op_type), list<std::string>(inputs, text),
                  list<std::string>(outputs, text), std::move(converted), version);
}

}  // namespace

void bind_builder(py::module_& module) {
    py::class_<GraphBuilder, std::shared_ptr<GraphBuilder>>(module, "GraphBuilder", "Takes in one ONNX graph.")
        .def(py::init<>())
        .def("add_input", [](GraphBuilder& self, py::handle name,
                             py::handle declared) { self.add_input(text(name), type(declared)); })
        .def("add_output", [](GraphBuilder& self, py::handle name,
                              py::handle declared) { self.add_output(text(name), type(declared)); })
        .def("add_value_info", [](GraphBuilder& self, py::handle name,
                                  py::handle declared) { self.add_value_info(text(name), type(declared)); })
        .def("add_initializer", [](GraphBuilder& self, py::handle name, py::handle dtype, py::handle dims,
                                   py::handle data) { self.add_initializer(text(name), tensor(dtype, dims, data)); })
        .def("add_node", &add_node, py::arg("name"), py::arg("domain"), py::arg("op_type"), py::arg("inputs"),
             py::arg("outputs"), py::arg("attributes"), py::arg("version") = 0)
        .def("add_refused", [](GraphBuilder& self, py::handle name, py::handle inputs, py::handle outputs) {
            self.add_refused(text(name), list<std::string>(inputs, text), list<std::string>(outputs, text));
        });

    py::class_<ModelBuilder>(module, "ModelBuilder", "Takes in one ONNX model.")
        .def(py::init<>())
        .def("set_ir_version", &ModelBuilder::set_ir_version)
        .def("add_opset", &ModelBuilder::add_opset)
        .def("add_custom",
             [](ModelBuilder& self, std::shared_ptr<frontend::CustomOperator> op) { self.add_custom(std::move(op)); })
        .def("graph", &ModelBuilder::graph, py::return_value_policy::reference_internal)
        .def("add_invalid", &ModelBuilder::add_invalid)
        .def("add_unsupported", &ModelBuilder::add_unsupported)
        .def("build", [](ModelBuilder& self) {
            py::gil_scoped_release release;
            return std::move(self).build();
        });
    module.def("is_supported", &refactor::onnx::is_supported, "Whether there is a native importer of an operator.");
    module.def("newest_opset", &refactor::onnx::newest_opset,
               "Newest version of the default domain that is understood.");
    module.def(
        "supported_operators",
        [] {
            py::list out;
            for (auto const& item : refactor::onnx::supported_operators())
                out.append(py::make_tuple(item.domain, item.op_type, item.first, item.last));
            return out;
        },
        "Domain, name, first and last version (None: the newest) of every native operator.");
}

}  // namespace refactor::python
