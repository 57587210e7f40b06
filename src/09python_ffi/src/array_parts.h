#pragma once
#include "arrays.h"

#include <pybind11/numpy.h>

/// What the conversions of arrays and of other values share.
namespace refactor::python {

inline constexpr int kContiguous = py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_,
                     kAligned = py::detail::npy_api::NPY_ARRAY_ALIGNED_,
                     kWriteable = py::detail::npy_api::NPY_ARRAY_WRITEABLE_;

inline py::detail::npy_api& api() { return py::detail::npy_api::get(); }
inline void* array_data(PyObject* array) { return py::detail::array_proxy(array)->data; }

/// "float32[2, 3]" of a numpy array.
std::string describe_array(PyObject* array);
/// Throws `InvalidInput`: the port's type was expected, `got` came.
[[noreturn]] void mismatch(runtime::PortInfo const& port, std::string const& got);
/// A numpy array of whatever the user gave; refuses what would need a guess (lists, numbers, text).
py::object as_array(py::handle object, runtime::PortInfo const& port);

/// Values that are no tensors of numbers: text from an array of Python strings or of numpy's own kinds, a sequence from
/// a list, a map from a dict. Throw as `to_value` does.
runtime::Value strings_of(py::handle object, runtime::PortInfo const& port);
runtime::Value sequence_of(py::handle object, runtime::PortInfo const& port, Ownership ownership);
runtime::Value map_of(py::handle object, runtime::PortInfo const& port);
/// Such a value as an array of objects, a list, a dict, or None.
py::object to_object(runtime::Value const& value);

}  // namespace refactor::python
