#include "arrays.h"
#include "common/error.h"
#include "computation/compile.h"
#include "custom_python.h"
#include "frontend/custom_library.h"
#include "mem_manager/blob.h"
#include "module.h"
#include "runtime/operator_error.h"
#include "runtime/procedure.h"

#include <algorithm>

#include <pybind11/stl.h>

namespace refactor::python {

namespace {

using frontend::Attributes;
using frontend::CustomOperator;
using frontend::InferContext;
using frontend::Inferred;
using frontend::ProcedureContext;
using frontend::ProcedurePtr;
using frontend::Status;
using runtime::OperatorError;
using runtime::Value;

py::object text_object(std::string const& text) {
    auto object = py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
    if (!object) throw py::error_already_set();
    return object;
}

py::object tensor_object(Value const& value) {
    auto array = py::reinterpret_steal<py::object>(to_array(value));
    // What others compute with is not to be written.
    array.attr("setflags")(py::arg("write") = false);
    return array;
}

py::object attribute_object(std::string const& name, frontend::Attribute const& attribute) {
    return std::visit(
        [&](auto const& value) -> py::object {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, std::string>) {
                return text_object(value);
            } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
                py::list list;
                for (auto const& text : value) list.append(text_object(text));
                return list;
            } else if constexpr (std::is_same_v<T, frontend::TensorValue>) {
                if (value.dtype == DataType::String) return tensor_object(Value::strings(value.dims, value.strings));
                return copy_to_array(value.dtype, value.dims, value.blob->data());
            } else if constexpr (std::is_same_v<T, std::shared_ptr<frontend::Graph const>> ||
                                 std::is_same_v<T, std::shared_ptr<frontend::Tensor const>>) {
                throw Unsupported("attribute \"" + name + "\" is a " + std::string(kind_of(attribute)) +
                                  ", which custom operators cannot have");
            } else {
                return py::cast(value);
            }
        },
        attribute);
}

py::dict attributes_object(Attributes const& attributes) {
    py::dict dict;
    for (auto const& [name, value] : attributes) dict[text_object(name)] = attribute_object(name, value);
    return dict;
}

/// (type, sizes, content or None) as `refactor_graph._custom` expects it; None for an omitted input.
py::object input_object(InferContext const& c, size_t i) {
    if (!c.has(i)) return py::none();
    auto const& tensor = c.input(i);
    if (!tensor.is_tensor())
        throw Unsupported("input " + std::to_string(i) + " is a " + std::string(runtime::name_of(tensor.kind)) +
                          ", which custom operators cannot have");
    py::tuple sizes(tensor.rank());
    for (size_t axis = 0; axis < tensor.rank(); ++axis) {
        auto const& size = (*tensor.shape)[axis];
        sizes[axis] = size.is_constant() ? py::object(py::int_(*size.constant())) : text_object(c.text(size));
    }
    py::object content = py::none();
    if (tensor.literal) {
        content = tensor_object(*tensor.literal);
    } else if (tensor.constant) {
        Dims dims;
        for (auto const& size : *tensor.shape) dims.push_back(*size.constant());
        content = copy_to_array(tensor.dtype, dims, tensor.constant->data());
    }
    return py::make_tuple(py::str(std::string(name_of(tensor.dtype))), sizes, content);
}

/// A list of (ONNX code of the type, list of texts or None, or None).
std::vector<frontend::AnnouncedType> announced(py::handle result) {
    std::vector<frontend::AnnouncedType> types;
    for (auto item : result) {
        auto pair = item.cast<std::pair<int64_t, std::optional<std::vector<std::optional<std::string>>>>>();
        auto dtype = data_type_from_onnx(pair.first);
        types.push_back({dtype.value_or(DataType::Undefined), std::move(pair.second)});
    }
    return types;
}

/// Calls the Python callable on arrays.
class PythonProcedure final : public runtime::Procedure {
    Held compute_, attributes_;
    frontend::ResultCheck check_;
    std::string id_;

    Value result(py::handle object, size_t i) const {
        runtime::PortInfo port;
        port.name = "output " + std::to_string(i);
        try {
            return to_value(object, port, Ownership::Share);
        } catch (InvalidInput const&) {
            throw OperatorError(port.name + " is an object of type " + Py_TYPE(object.ptr())->tp_name +
                                " that is no array of a known type, announced was " + check_.expected(i));
        }
    }

public:
    PythonProcedure(Held compute, Held attributes, ProcedureContext const& context, std::string const& name)
        : compute_(std::move(compute)),
          attributes_(std::move(attributes)),
          check_(context),
          id_("custom:cpu:python:" + name) {}
    std::string id() const override { return id_; }

    void call(std::span<Value const* const> inputs, std::span<Value> outputs,
              runtime::CallContext const&) const override {
        py::gil_scoped_acquire gil;
        std::vector<Value> results;
        try {
            py::list arrays;
            for (auto* input : inputs) arrays.append(input ? tensor_object(*input) : py::none());
            py::list made = borrow(compute_)(arrays, borrow(attributes_), outputs.size());
            for (size_t i = 0; i < outputs.size(); ++i) results.push_back(result(made[i], i));
        } catch (py::error_already_set& error) {
            throw_what_failed(error);
        }
        check_.check(inputs, results);
        std::move(results.begin(), results.end(), outputs.begin());
    }
};

class PythonOperator final : public CustomOperator {
    Held infer_, compute_;
    std::vector<size_t> needs_;
    std::string device_;

    Inferred<ProcedurePtr> on_device(ProcedureContext const& context, Held attributes) const {
        if (context.options.device != device_)
            return Err{frontend::unsupported("its function runs on ", device_, ", not on ", context.options.device)};
        auto is_text = [](DataType dtype) { return dtype == DataType::String; };
        bool text = std::any_of(context.inputs.begin(), context.inputs.end(),
                                [&](auto* input) { return input && is_text(input->dtype); }) ||
                    std::any_of(context.outputs.begin(), context.outputs.end(),
                                [&](auto const& output) { return is_text(output.dtype); });
        if (text)
            return Err{frontend::unsupported("text is in the memory of the host, its function runs on ", device_)};
        return make_device_procedure(compute_, std::move(attributes), context, name, device_);
    }

    template <class F>
    static auto guarded(F&& body) -> decltype(body()) {
        py::gil_scoped_acquire gil;
        try {
            return body();
        } catch (py::error_already_set& error) {
            bool unsupported = is_error(error, "Unsupported");
            auto own = unsupported || is_error(error, "InvalidModel") || is_error(error, "InvalidInput");
            auto text =
                own ? py::str(error.value()).cast<std::string>() : "its shape function failed: " + message_of(error);
            if (unsupported) return {failed(frontend::unsupported(text), static_cast<decltype(body())*>(nullptr))};
            return {failed(frontend::invalid(text), static_cast<decltype(body())*>(nullptr))};
        } catch (py::cast_error const&) {
            return {failed(frontend::invalid("its shape function gave something else than types and sizes"),
                           static_cast<decltype(body())*>(nullptr))};
        } catch (Unsupported const& error) {
            return {failed(frontend::unsupported(error.message()), static_cast<decltype(body())*>(nullptr))};
        }
    }
    static frontend::InferError failed(frontend::InferError error, Status*) { return error; }
    template <class T>
    static Err<frontend::InferError> failed(frontend::InferError error, Inferred<T>*) {
        return Err{std::move(error)};
    }

public:
    PythonOperator(std::string in, std::string called, int64_t from, std::optional<int64_t> to, py::object infer,
                   py::object compute, std::vector<size_t> needs, std::string device)
        : infer_(hold(std::move(infer))),
          compute_(hold(std::move(compute))),
          needs_(std::move(needs)),
          device_(std::move(device)) {
        domain = std::move(in), name = std::move(called), first = from, last = to;
    }

    Status infer(InferContext& c, Attributes const& attributes) const override {
        for (auto i : needs_)
            if (c.has(i) && c.input(i).is_tensor() && !c.input(i).constant && !c.input(i).literal)
                return frontend::needs_value(i, "the shape function needs its content");
        return guarded([&]() -> Status {
            py::list inputs;
            for (size_t i = 0; i < c.input_count(); ++i) inputs.append(input_object(c, i));
            auto result = borrow(infer_)(inputs, attributes_object(attributes), c.output_count());
            return set_announced(c, announced(result));
        });
    }

    Inferred<ProcedurePtr> procedure(ProcedureContext const& context, Attributes const& attributes) const override {
        return guarded([&]() -> Inferred<ProcedurePtr> {
            auto held = hold(attributes_object(attributes));
            if (device_ != "cpu") return on_device(context, std::move(held));
            return ProcedurePtr(std::make_shared<PythonProcedure>(compute_, std::move(held), context, name));
        });
    }
};

}  // namespace

void bind_custom(py::module_& module) {
    module.def("current_stream", &current_stream,
               "Number of the stream of the custom operator that this thread is computing on a device; else None.");
    py::class_<CustomOperator, std::shared_ptr<CustomOperator>>(module, "CustomOperator",
                                                                "An operator that a user has defined.")
        .def(py::init([](std::string domain, std::string name, int64_t first, std::optional<int64_t> last,
                         py::object infer, py::object compute, std::vector<size_t> needs, std::string device) {
            return std::shared_ptr<CustomOperator>(
                std::make_shared<PythonOperator>(std::move(domain), std::move(name), first, last, std::move(infer),
                                                 std::move(compute), std::move(needs), std::move(device)));
        }))
        .def_readonly("domain", &CustomOperator::domain)
        .def_readonly("name", &CustomOperator::name)
        .def_readonly("first", &CustomOperator::first)
        .def_readonly("last", &CustomOperator::last);
    module.def(
        "load_custom_library",
        [](std::string const& path) {
            std::vector<std::shared_ptr<CustomOperator>> all;
            // pybind11 holds no pointers to const; everything that is bound is read only.
            for (auto const& op : frontend::load_custom_library(path))
                all.push_back(std::const_pointer_cast<CustomOperator>(op));
            return all;
        },
        "Operators of a shared library.");
}

}  // namespace refactor::python
