#pragma once
#include "buffers.h"
#include "frontend/custom_operator.h"
#include "module.h"

#include <optional>

/// What custom operators that are Python callables share.
namespace refactor::python {

/// A Python object that may be let go of on any thread, with or without the GIL.
using Held = std::shared_ptr<PyObject>;

inline Held hold(py::object object) { return {object.release().ptr(), release_object}; }
inline py::object borrow(Held const& held) { return py::reinterpret_borrow<py::object>(held.get()); }

/// Whether it is the exception `refactor_graph._errors.<name>`.
bool is_error(py::error_already_set const& error, char const* name);
/// "ValueError: …". What is no `Exception` (KeyboardInterrupt) goes on as it is.
std::string message_of(py::error_already_set& error);
/// Throws `InvalidInput`, `Unsupported` and `Cancelled` as themselves, anything else as `OperatorError`.
[[noreturn]] void throw_what_failed(py::error_already_set& error);

/// The procedure that calls `compute` on tensors in the memory of a device of kind `device`.
frontend::ProcedurePtr make_device_procedure(Held compute, Held attributes, frontend::ProcedureContext const& context,
                                             std::string const& name, std::string const& device);
/// Of the call of such a procedure that this thread is in; nothing outside of one.
std::optional<uint64_t> current_stream();

}  // namespace refactor::python
