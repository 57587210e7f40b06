#include "frontend/saved.h"

#include "module.h"

#include <pybind11/stl.h>

namespace refactor::python {

namespace {

using frontend::Saved;

/// The bytes of one tensor for as long as Python looks at them.
class SavedBytes {
    std::shared_ptr<mem_manager::Blob const> blob_;
    mem_manager::Blob::Reader reader_;

public:
    explicit SavedBytes(std::shared_ptr<mem_manager::Blob const> blob) : blob_(std::move(blob)), reader_(*blob_) {}
    py::buffer_info buffer() const {
        auto bytes = static_cast<py::ssize_t>(blob_->bytes());
        return {static_cast<uint8_t*>(const_cast<void*>(reader_.data())), bytes, true};
    }
};

/// Names, types, sizes and bytes in memory; names are bytes, since models may have any.
py::list describe(Saved const& saved) {
    py::list result;
    for (auto const& tensor : saved.tensors) {
        py::tuple dims(tensor.dims.size());
        for (size_t i = 0; i < tensor.dims.size(); ++i) dims[i] = tensor.dims[i];
        result.append(py::make_tuple(py::bytes(tensor.name), name_of(tensor.dtype), dims, tensor.blob->bytes()));
    }
    return result;
}

}  // namespace

void bind_saved(py::module_& module) {
    py::class_<SavedBytes>(module, "SavedBytes", py::buffer_protocol(), "Bytes of a tensor of a saved model.")
        .def_buffer(&SavedBytes::buffer);
    py::class_<Saved>(module, "Saved", "A compiled model as plain data.")
        .def_property_readonly(
            "graph",
            [](Saved const& self) {
                return py::bytes(reinterpret_cast<char const*>(self.graph.data()), self.graph.size());
            },
            "The graphs, which refer to tensors by number.")
        .def_property_readonly("tensors", &describe, "Name, element type, shape and number of bytes of each tensor.")
        .def(
            "bytes",
            [](Saved const& self, size_t number) { return std::make_unique<SavedBytes>(self.tensors.at(number).blob); },
            "Bytes of a tensor, row-major.");
}

}  // namespace refactor::python
