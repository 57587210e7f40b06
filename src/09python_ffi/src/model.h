#pragma once
#include "frontend/compile.h"
#include "module.h"

#include <mutex>

namespace refactor::python {

/// At which tensors begin in a file, since kernels read their weights where they are.
inline constexpr size_t kSavedAlignment = 64;

/// What `Model.compile` gives back: immutable, shared by executors.
using PyProgram = frontend::Compiled;

/// Declared type of an input or output: `shape` has an int or the text of an expression for each size, or is None if
/// the rank is unknown or it is no tensor.
struct PyPort {
    std::string name, dtype;
    py::object shape;
    std::string kind = "tensor";
    std::shared_ptr<PyPort> element = nullptr;
};
PyPort make_port(runtime::PortInfo const& info);

}  // namespace refactor::python
