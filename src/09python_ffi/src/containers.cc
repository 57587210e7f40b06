#include "array_parts.h"
#include "common/error.h"

namespace refactor::python {

using runtime::PortInfo;
using runtime::Value;

namespace {

std::string text_of(PyObject* object, PortInfo const& port) {
    if (PyBytes_Check(object)) return {PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object))};
    if (!PyUnicode_Check(object)) mismatch(port, std::string("an element of type ") + Py_TYPE(object)->tp_name);
    Py_ssize_t size = 0;
    if (auto const* kept = PyUnicode_AsUTF8AndSize(object, &size)) return {kept, static_cast<size_t>(size)};
    PyErr_Clear();  // a lone surrogate: perhaps a byte of an earlier output that was no UTF-8
    auto bytes = py::reinterpret_steal<py::object>(PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape"));
    if (!bytes) throw py::error_already_set();
    return {PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

/// An array of Python's own strings.
py::object text_array(Value const& value) {
    auto const& strings = value.contents->strings;
    py::tuple shape(value.dims.size());
    for (size_t i = 0; i < value.dims.size(); ++i) shape[i] = value.dims[i];
    auto array = py::module_::import("numpy").attr("empty")(shape, py::str("O"));
    auto** items = static_cast<PyObject**>(array_data(array.ptr()));  // each holds None
    py::str const nothing("");
    for (size_t i = 0; i < strings.size(); ++i) {
        auto size = static_cast<Py_ssize_t>(strings[i].size());
        auto* text = size ? PyUnicode_DecodeUTF8(strings[i].data(), size, "surrogateescape") : nothing.inc_ref().ptr();
        if (!text) throw py::error_already_set();
        std::swap(items[i], text);
        Py_XDECREF(text);
    }
    return array;
}

/// The elements of a tensor of one axis as Python's own objects.
py::list items_of(Value const& value) {
    auto fill = [&]<class T>(T const* elements, auto const& make) {
        py::list list(static_cast<size_t>(value.count()));
        for (py::ssize_t i = 0; i < value.count(); ++i) {
            auto* item = make(elements[i]);
            if (!item) throw py::error_already_set();
            PyList_SET_ITEM(list.ptr(), i, item);
        }
        return list;
    };
    if (value.dtype == DataType::F32) return fill(value.data<float>(), PyFloat_FromDouble);
    if (value.dtype == DataType::I64) return fill(value.data<int64_t>(), PyLong_FromLongLong);
    return py::reinterpret_steal<py::object>(to_array(value)).attr("tolist")();
}

/// Makes dicts of maps. Those of a sequence have the same keys as a rule, which are converted once.
class DictMaker {
    Value keys_;
    py::list items_;

public:
    py::object make(Value const& map) {
        auto const &keys = map.contents->elements[0], &values = map.contents->elements[1];
        if (keys_.unset() || keys.blob != keys_.blob || keys.contents != keys_.contents)
            keys_ = keys, items_ = items_of(keys);
        py::dict dict;
        auto set = [&](py::ssize_t i, PyObject* value) {
            if (!value || PyDict_SetItem(dict.ptr(), PyList_GET_ITEM(items_.ptr(), i), value))
                throw py::error_already_set();
        };
        if (values.dtype == DataType::F32) {
            auto const* numbers = values.data<float>();
            for (py::ssize_t i = 0; i < keys.count(); ++i)
                set(i, py::reinterpret_steal<py::object>(PyFloat_FromDouble(numbers[i])).ptr());
            return dict;
        }
        auto list = items_of(values);
        for (py::ssize_t i = 0; i < keys.count(); ++i) set(i, PyList_GET_ITEM(list.ptr(), i));
        return dict;
    }
};

}  // namespace

Value strings_of(py::handle object, PortInfo const& port) {
    auto array = as_array(object, port);
    auto kind = array.attr("dtype").attr("kind").cast<std::string>();
    if (kind != "O" && kind != "U" && kind != "S" && kind != "T") mismatch(port, describe_array(array.ptr()));
    auto const* proxy = py::detail::array_proxy(array.ptr());
    Dims dims(proxy->dimensions, proxy->dimensions + proxy->nd);
    std::vector<std::string> elements;
    if (kind == "O" && (proxy->flags & kContiguous) && (proxy->flags & kAligned)) {
        size_t count = 1;
        for (auto size : dims) count *= static_cast<size_t>(size);
        auto* const* items = reinterpret_cast<PyObject* const*>(proxy->data);
        elements.reserve(count);
        for (size_t i = 0; i < count; ++i) elements.push_back(text_of(items[i] ? items[i] : Py_None, port));
    } else {
        auto list = array.attr("ravel")().attr("tolist")();
        elements.reserve(py::len(list));
        for (auto element : list) elements.push_back(text_of(element.ptr(), port));
    }
    return Value::strings(std::move(dims), std::move(elements));
}

Value sequence_of(py::handle object, PortInfo const& port, Ownership ownership) {
    if (!py::isinstance<py::list>(object) && !py::isinstance<py::tuple>(object))
        mismatch(port, std::string("an object of type ") + Py_TYPE(object.ptr())->tp_name + " (give a list)");
    auto element = *port.element;
    element.name = port.name;
    std::vector<Value> elements;
    for (auto item : object) elements.push_back(to_value(item, element, ownership));
    return Value::sequence(std::move(elements));
}

Value map_of(py::handle object, PortInfo const& port) {
    if (!py::isinstance<py::dict>(object))
        mismatch(port, std::string("an object of type ") + Py_TYPE(object.ptr())->tp_name + " (give a dict)");
    auto numpy = py::module_::import("numpy");
    auto dict = py::reinterpret_borrow<py::dict>(object);
    auto array = [&](char const* part, DataType type) {
        PortInfo items{port.name, type, "[?]", {-1}, {}};
        auto list = py::list(dict.attr(part)());
        auto dtype = type == DataType::String ? py::object(py::str("O"))
                                              : py::reinterpret_borrow<py::object>(descriptor_of(type));
        return to_value(numpy.attr("array")(list, dtype), items, Ownership::Copy);
    };
    return Value::map(array("keys", port.dtype), array("values", port.element->dtype));
}

py::object to_object(Value const& value) {
    if (value.kind == runtime::ValueKind::Optional) return py::none();
    DictMaker dicts;
    if (value.kind == runtime::ValueKind::Map) return dicts.make(value);
    if (value.kind == runtime::ValueKind::Sequence) {
        auto const& elements = value.contents->elements;
        py::list list(elements.size());
        for (size_t i = 0; i < elements.size(); ++i) {
            auto item = elements[i].kind == runtime::ValueKind::Map
                            ? dicts.make(elements[i])
                            : py::reinterpret_steal<py::object>(to_array(elements[i]));
            PyList_SET_ITEM(list.ptr(), static_cast<py::ssize_t>(i), item.release().ptr());
        }
        return list;
    }
    return text_array(value);
}

}  // namespace refactor::python
