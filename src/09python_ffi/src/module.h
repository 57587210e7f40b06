#pragma once
#include <pybind11/pybind11.h>

namespace refactor::python {

namespace py = pybind11;

// One function for each source that binds classes; `module.cc` calls them in an order in which every base and argument
// type is known.
void bind_errors(py::module_& module);
void bind_device(py::module_& module);
void bind_device_arrays(py::module_& module);
void bind_custom(py::module_& module);
void bind_builder(py::module_& module);
void bind_saved(py::module_& module);
void bind_model(py::module_& module);
void bind_executor(py::module_& module);
void bind_images(py::module_& module);
void bind_pnnx(py::module_& module);

}  // namespace refactor::python
