#pragma once
#include <exception>

namespace refactor::python {

/// Sets the Python exception that belongs to `error`: the class of `refactor_graph` for our own errors, MemoryError's
/// subclass for `std::bad_alloc`, `InternalError` for anything else. For code that is called by CPython directly;
/// pybind11 does it by itself.
void set_python_error(std::exception_ptr error) noexcept;

}  // namespace refactor::python
