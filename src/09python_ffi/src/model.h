#pragma once
#include "computation/compile.h"
#include "module.h"

#include <mutex>

namespace refactor::python {

/// What `Model.compile` gives back: an immutable program that executors share.
struct PyProgram {
    std::shared_ptr<kernel::Program> program;
    std::vector<computation::PassReport> passes;
};

/// Declared type of an input or output: `shape` has an int or the text of an expression for each size, or is None if
/// the rank is unknown.
struct PyPort {
    std::string name, dtype;
    py::object shape;
};
PyPort make_port(runtime::PortInfo const& info);

}  // namespace refactor::python
