#include "buffers.h"
#include "module.h"
#include "pnnx/model_reader.h"

#include <pybind11/stl.h>

namespace refactor::python {

namespace {

using refactor::pnnx::InputShapes;

/// A mapped archive or weight file: entries are aligned when they are read.
std::shared_ptr<mem_manager::Blob const> blob_of(py::handle bin) {
    return bin.is_none() ? nullptr : share_buffer(bin, 1);
}

using Loader = frontend::Model (*)(std::string_view, std::shared_ptr<mem_manager::Blob const>, InputShapes const&,
                                   frontend::CustomOperators const&);
using Customs = std::vector<std::shared_ptr<frontend::CustomOperator>>;

template <Loader kLoad>
frontend::Model load(py::bytes const& param, py::handle bin, InputShapes const& shapes, Customs const& customs) {
    auto text = static_cast<std::string>(param);
    auto blob = blob_of(bin);
    py::gil_scoped_release release;
    return kLoad(text, std::move(blob), shapes, {customs.begin(), customs.end()});
}

}  // namespace

void bind_pnnx(py::module_& module) {
    module.def("load_pnnx", &load<refactor::pnnx::load_pnnx>, "A model in PNNX's format.");
    module.def("load_ncnn", &load<refactor::pnnx::load_ncnn>, "A model in ncnn's format.");
    module.def("pnnx_operators", &refactor::pnnx::supported_operators, "Names of the pnnx operators that are lowered.");
}

}  // namespace refactor::python
