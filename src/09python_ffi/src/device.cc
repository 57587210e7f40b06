#include "mem_manager/device.h"

#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "kernel/device_dnn.h"
#include "kernel/peak.h"
#include "module.h"

#include <pybind11/stl.h>

namespace refactor::python {

using mem_manager::Device;

namespace {

std::vector<std::string> libraries_of(Device const& device) {
    if (device.kind() == "cpu") return {};
    auto const* table = static_cast<RefactorDeviceDnn const*>(device.extension(RG_DNN_EXTENSION));
    if (!table) return {"cuDNN: the plugin was built without it"};
    char text[512] = "";
    table->version(text, sizeof text);
    return {text};
}

}  // namespace

void bind_device(py::module_& module) {
    py::class_<Device, std::unique_ptr<Device, py::nodelete>>(module, "Device", "A place where tensors live.")
        .def_property_readonly(
            "kind", [](Device const& self) { return std::string(self.kind()); }, "\"cpu\" or \"nvidia\".")
        .def_property_readonly("ordinal", &Device::ordinal, "Number among the devices of its kind.")
        .def_property_readonly("name", &Device::name, "Name for people.")
        .def(
            "memory",
            [](Device const& self) {
                auto info = self.memory();
                return py::make_tuple(info.free, info.total);
            },
            "Free and total memory in bytes; 0 if unknown.")
        .def_property_readonly(
            "libraries", [](Device const& self) { return libraries_of(self); },
            "Libraries for convolutions and attention that kernels may use: the version, or what is missing.")
        .def("__repr__", [](Device const& self) { return "<Device " + self.name() + ">"; });
    module.def("find_device", &mem_manager::find_device, py::arg("kind"), py::arg("ordinal") = 0,
               py::return_value_policy::reference, "Find a device; raises DeviceError saying what is missing.");
    module.def("default_thread_count", &default_thread_count,
               "Processors that this process may use: the affinity mask, cut by the cgroup quota.");
    module.def(
        "instruction_set", [] { return std::string(name_of(cpu_features().isa)); },
        "The highest instruction set that kernels use: scalar, avx2, avx2vnni, avx512, avx512vnni, avx512bf16 "
        "or avx512amx.");
    module.def(
        "measure_peak",
        [](int threads) {
            ThreadPool pool(threads);
            auto peak = kernel::measure_peak(cpu_features().isa, pool);
            return std::tuple(peak.f32, peak.int8, peak.bf16);
        },
        py::arg("num_threads") = 1, py::call_guard<py::gil_scoped_release>(),
        "f32, int8 and bf16 operations a second that so many threads reach on registers alone, a multiply-add counting "
        "two; 0 where there is no instruction for it. Takes about 30 ms.");
}

}  // namespace refactor::python
