#pragma once
#include "module.h"
#include "runtime/plan.h"
#include "runtime/value.h"

namespace refactor::python {

/// The numpy dtype of a type (ml_dtypes for bf16, 8-, 4- and 2-bit types), a borrowed reference. Throws `Unsupported`
/// for a type that numpy does not have.
PyObject* descriptor_of(DataType type);

/// Who owns the memory of a value made of an array.
enum class Ownership {
    Copy,   ///< the value has memory of its own
    Share,  ///< the value refers to the array and keeps it alive; an array that is not contiguous, aligned and native
            ///< is copied
};

/// The value of `array` for the input `port`: a numpy array or scalar, or an object with `__dlpack__` or `__array__`.
/// The dtype must be the port's (another byte order is converted); sizes are left to the executor. Throws
/// `InvalidInput` with name, expected and actual.
runtime::Value to_value(py::handle array, runtime::PortInfo const& port, Ownership ownership);

/// An array that shares the value's memory and keeps it alive (sub-byte types are unpacked into a copy). A new
/// reference.
PyObject* to_array(runtime::Value const& value);

/// An array with a copy of row-major `data`.
py::object copy_to_array(DataType dtype, Dims const& dims, void const* data);

}  // namespace refactor::python
