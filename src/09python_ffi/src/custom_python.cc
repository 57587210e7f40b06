#include "custom_python.h"

#include "common/error.h"
#include "runtime/operator_error.h"

namespace refactor::python {

bool is_error(py::error_already_set const& error, char const* name) {
    return error.matches(py::module_::import("refactor_graph._errors").attr(name));
}

/// "ValueError: …". What is no `Exception` (KeyboardInterrupt) goes on as it is.
std::string message_of(py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw py::error_already_set(error);
    auto type = py::str(error.type().attr("__name__")).cast<std::string>();
    return type + ": " + py::str(error.value()).cast<std::string>();
}

void throw_what_failed(py::error_already_set& error) {
    auto own = py::str(error.value()).cast<std::string>();
    if (is_error(error, "InvalidInput")) throw InvalidInput(own);
    if (is_error(error, "Unsupported")) throw Unsupported(own);
    if (is_error(error, "Cancelled")) throw Cancelled(own);
    auto text = message_of(error);
    if (error.trace()) PyException_SetTraceback(error.value().ptr(), error.trace().ptr());
    throw runtime::OperatorError(text, hold(error.value()));
}

}  // namespace refactor::python
