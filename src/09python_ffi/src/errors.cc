#include "errors.h"

#include "common/error.h"
#include "module.h"
#include "runtime/operator_error.h"

#include <new>

namespace refactor::python {

namespace {

/// Classes of `refactor_graph._errors`; they live as long as the interpreter.
struct Classes {
    PyObject *error, *invalid_model, *invalid_input, *unsupported, *out_of_memory, *device, *cancelled, *operator_error,
        *internal;
};
Classes classes;

void raise(PyObject* type, char const* text, PyObject* cause = nullptr) {
    // What comes from a model may be no UTF-8: a message must not fail to be made because of that.
    PyObject* message = PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(strlen(text)), "backslashreplace");
    if (!message) return;
    PyErr_SetObject(type, message);
    Py_DECREF(message);
    if (!cause) return;
    py::error_already_set error;
    PyException_SetCause(error.value().ptr(), Py_NewRef(cause));
    error.restore();
}

/// Most derived classes first.
void translate(std::exception_ptr error) {
    try {
        std::rethrow_exception(error);
    } catch (InvalidModel const& e) {
        raise(classes.invalid_model, e.what());
    } catch (InvalidInput const& e) {
        raise(classes.invalid_input, e.what());
    } catch (Unsupported const& e) {
        raise(classes.unsupported, e.what());
    } catch (OutOfMemory const& e) {
        raise(classes.out_of_memory, e.what());
    } catch (DeviceError const& e) {
        raise(classes.device, e.what());
    } catch (Cancelled const& e) {
        raise(classes.cancelled, e.what());
    } catch (runtime::OperatorError const& e) {
        raise(classes.operator_error, e.what(), static_cast<PyObject*>(e.cause().get()));
    } catch (InternalError const& e) {
        raise(classes.internal, e.what());
    } catch (Error const& e) {
        raise(classes.error, e.what());
    } catch (std::bad_alloc const&) {
        raise(classes.out_of_memory, "out of memory of the host");
    }
}

}  // namespace

void set_python_error(std::exception_ptr error) noexcept {
    try {
        translate(error);
    } catch (pybind11::error_already_set& e) {
        e.restore();
    } catch (std::exception const& e) {
        raise(classes.internal, e.what());
    } catch (...) {
        raise(classes.internal, "an exception of an unknown type");
    }
}

void bind_errors(py::module_&) {
    auto errors = py::module_::import("refactor_graph._errors");
    auto find = [&](char const* name) { return py::object(errors.attr(name)).release().ptr(); };
    classes = {find("Error"),       find("InvalidModel"),  find("InvalidInput"),
               find("Unsupported"), find("OutOfMemory"),   find("DeviceError"),
               find("Cancelled"),   find("OperatorError"), find("InternalError")};
    py::register_exception_translator([](std::exception_ptr error) {
        if (error) translate(error);
    });
}

}  // namespace refactor::python
