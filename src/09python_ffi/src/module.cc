#include "module.h"

PYBIND11_MODULE(_core, module) {
    using namespace refactor::python;
    module.doc() = "Native core of refactor_graph.";
    module.attr("__version__") = RG_VERSION;
    bind_errors(module);
    bind_device(module);
    bind_device_arrays(module);
    bind_custom(module);
    bind_builder(module);
    bind_saved(module);
    bind_model(module);
    bind_executor(module);
    bind_images(module);
    bind_pnnx(module);
}
