#include <pybind11/pybind11.h>

PYBIND11_MODULE(_core, module) {
    module.doc() = "Native core of refactor_graph.";
    module.attr("__version__") = RG_VERSION;
}
