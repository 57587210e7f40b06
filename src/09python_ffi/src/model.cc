#include "model.h"

#include "buffers.h"
#include "common/cpu_features.h"
#include "common/error.h"
#include "frontend/model.h"
#include "frontend/saved.h"
#include "kernel/program.h"
#include "runtime/session.h"

#include <pybind11/stl.h>

namespace refactor::python {

namespace {

std::vector<PyPort> make_ports(std::vector<frontend::Tensor> const& tensors, SymbolTable const& symbols) {
    std::vector<PyPort> ports;
    for (auto const& tensor : tensors) ports.push_back(make_port(frontend::port_of(tensor, symbols)));
    return ports;
}

void set_precision(computation::CompileOptions& options, std::string const& name) {
    if (name == "exact")
        options.precision = kernel::Precision::Exact;
    else if (name == "tf32")
        options.precision = kernel::Precision::Tf32;
    else if (name == "f16")
        options.compute = DataType::F16;
    else if (name == "bf16")
        options.compute = DataType::BF16;
    else if (name == "fp8")
        options.precision = kernel::Precision::F8, options.compute = DataType::BF16;
    else if (name == "int8")
        options.round_products = true;
    else if (name != "default" && name != "f32")
        throw InvalidInput("unknown precision \"" + name +
                           "\", expected one of: default, exact, f32, tf32, f16, bf16, fp8, int8");
}

DataType weights_of(std::string const& name) {
    if (name == "default") return DataType::Undefined;
    if (name == "f32") return DataType::F32;
    if (name == "f16") return DataType::F16;
    if (name == "bf16") return DataType::BF16;
    if (name == "int8") return DataType::I8;
    if (name == "int4") return DataType::I4;
    if (name == "f8e4m3fn") return DataType::F8E4M3FN;
    if (name == "f8e5m2") return DataType::F8E5M2;
    throw InvalidInput("unknown weights \"" + name +
                       "\", expected one of: default, f32, f16, bf16, int8, int4, f8e4m3fn, f8e5m2");
}

/// Products of f8 and of bytes decide what weights are.
void set_weights(computation::CompileOptions& options, std::string const& name) {
    options.weights = weights_of(name);
    if (options.round_products && options.weights != DataType::Undefined && options.weights != DataType::I4)
        throw InvalidInput("weights \"" + name + "\" with the precision int8, expected default or int4");
    if (options.precision != kernel::Precision::F8) return;
    if (options.weights != DataType::Undefined && options.weights != DataType::F8E4M3FN)
        throw InvalidInput("weights \"" + name + "\" with the precision fp8, expected default or f8e4m3fn");
    options.weights = DataType::F8E4M3FN;
}

PyProgram compile(frontend::Model const& model, std::string device, std::vector<std::string> passes, int threads,
                  std::string const& precision, std::vector<std::string> keep, bool verify, size_t max_tensor_bytes,
                  std::shared_ptr<kernel::TuningTable> tuning, bool measure, std::string const& weights, bool host_too,
                  std::vector<std::string> keep_f32) {
    computation::CompileOptions options;
    options.device = std::move(device), options.host_too = host_too;
    options.keep_f32 = std::move(keep_f32);
    options.passes = std::move(passes);
    options.threads = threads;
    set_precision(options, precision);
    set_weights(options, weights);
    options.keep = std::move(keep);
    options.verify = verify;
    options.max_tensor_bytes = max_tensor_bytes;
    options.tuning = std::move(tuning);
    options.measure = measure;
    py::gil_scoped_release release;
    return frontend::compile(model, options);
}

PyProgram load_program(py::bytes const& graph, py::sequence const& tensors, int threads, size_t max_tensor_bytes) {
    std::vector<std::shared_ptr<mem_manager::Blob const>> blobs;
    for (auto buffer : tensors) blobs.push_back(share_buffer(buffer, kSavedAlignment));
    auto bytes = static_cast<std::string_view>(graph);
    py::gil_scoped_release release;
    return frontend::load(std::as_bytes(std::span(bytes)), blobs, {threads, max_tensor_bytes});
}

template <class F>
size_t total(PyProgram const& compiled, F&& count) {
    size_t sum = 0;
    for (auto const& program : compiled.programs) sum += count(*program);
    return sum;
}

std::string text_of(PyProgram const& compiled) {
    std::string text;
    size_t next = 0;
    for (auto const& call : compiled.executable->calls) {
        if (call.planner)
            text += compiled.programs[next++]->to_string();
        else
            text += call.name + " = " + call.type + "  " + call.procedure->id() + "\n";
    }
    return text;
}

std::string repr(PyPort const& port) {
    if (port.element) return port.name + ": " + port.kind + " of " + repr(*port.element);
    std::string text = port.name + ": " + port.dtype + "[";
    if (port.shape.is_none()) return text + "?]";
    auto sizes = port.shape.cast<py::tuple>();
    for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + py::str(sizes[i]).cast<std::string>();
    return text + "]";
}

void bind_tuning(py::module_& module) {
    using Table = kernel::TuningTable;
    py::class_<Table, std::shared_ptr<Table>>(module, "TuningTable", "Kernels that were fastest, by case.")
        .def(py::init([](std::map<std::string, std::string> const& choices) {
                 auto table = std::make_shared<Table>();
                 for (auto const& [key, kernel_id] : choices) table->set(key, kernel_id);
                 return table;
             }),
             py::arg("choices"))
        .def_property_readonly("choices", &Table::choices)
        .def_property_readonly_static(
            "processor",
            [](py::object const&) {
                auto const& cpu = cpu_features();
                return cpu.brand + " " + std::string(name_of(cpu.isa));
            },
            "Model and instruction set that measurements hold for.");
}

void bind_program(py::module_& module) {
    py::class_<computation::PassReport>(module, "PassReport", "What a pass did.")
        .def_readonly("name", &computation::PassReport::name)
        .def_readonly("changes", &computation::PassReport::changes)
        .def_readonly("microseconds", &computation::PassReport::microseconds)
        .def_readonly("notes", &computation::PassReport::notes, "What the pass left as it was, and why.");
    py::class_<PyProgram>(module, "Program", "A compiled model: immutable, shared by executors.")
        .def_property_readonly("passes", [](PyProgram const& self) { return self.passes; })
        .def_property_readonly(
            "packed_bytes",
            [](PyProgram const& self) { return total(self, [](auto const& p) { return p.packed_bytes(); }); },
            "Bytes of weights packed for kernels.")
        .def_property_readonly(
            "nodes",
            [](PyProgram const& self) { return total(self, [](auto const& p) { return p.parts().nodes.size(); }); })
        .def_property_readonly(
            "calls", [](PyProgram const& self) { return self.executable->calls.size(); },
            "Programs and procedures that a run goes through; 1 for most models.")
        .def("save", &frontend::save, py::call_guard<py::gil_scoped_release>(),
             "Return graph and tensors as plain data. Raises `Unsupported` naming the nodes that cannot be written.")
        .def("__str__", &text_of);
    module.def("load_program", &load_program, py::arg("graph"), py::arg("tensors"), py::arg("threads"),
               py::arg("max_tensor_bytes"),
               "Return the Program of a graph and tensors that were saved; the buffers of the tensors are shared.");
    module.def(
        "pass_names", &computation::pass_names,
        "Return the names of all passes, in the order of the default pipeline, for `Compiler.compile(passes=...)`.");
}

}  // namespace

PyPort make_port(runtime::PortInfo const& info) {
    PyPort port{info.name, std::string(name_of(info.dtype)), py::none(), std::string(runtime::name_of(info.kind))};
    if (info.element) port.element = std::make_shared<PyPort>(make_port(*info.element));
    if (!info.ranked || info.kind != runtime::ValueKind::Tensor) return port;
    py::tuple shape(info.dims.size());
    for (size_t i = 0; i < info.dims.size(); ++i) {
        if (info.dims[i] >= 0)
            shape[i] = info.dims[i];
        else
            shape[i] = i < info.symbols.size() ? info.symbols[i] : std::string("?");
    }
    port.shape = shape;
    return port;
}

void bind_model(py::module_& module) {
    py::class_<PyPort, std::shared_ptr<PyPort>>(module, "Port", "Declared type of an input or output.")
        .def_readonly("name", &PyPort::name)
        .def_readonly("dtype", &PyPort::dtype)
        .def_readonly("shape", &PyPort::shape)
        .def_readonly("kind", &PyPort::kind)
        .def_readonly("element", &PyPort::element)
        .def("__repr__", &repr);
    bind_tuning(module);
    bind_program(module);
    py::class_<frontend::Model>(module, "Model", "An imported model.")
        .def_property_readonly("inputs",
                               [](frontend::Model const& self) { return make_ports(self.inputs(), self.symbols()); })
        .def_property_readonly("outputs",
                               [](frontend::Model const& self) { return make_ports(self.outputs(), self.symbols()); })
        .def_property_readonly("variables", &frontend::Model::variables)
        .def(
            "known_nodes",
            [](frontend::Model const& self, std::vector<std::string> const& names) {
                std::vector<std::string> known;
                for (auto const& name : names)
                    if (std::vector<std::string> unknown; !self.nodes_of({&name, 1}, unknown).empty())
                        known.push_back(name);
                return known;
            },
            "Those of the names that `keep_f32` may have.")
        .def("substitute", &frontend::Model::substitute, py::call_guard<py::gil_scoped_release>())
        .def("compile", &compile, py::arg("device"), py::arg("passes"), py::arg("threads"), py::arg("precision"),
             py::arg("keep"), py::arg("verify"), py::arg("max_tensor_bytes") = 0, py::arg("tuning") = nullptr,
             py::arg("measure") = false, py::arg("weights") = "default", py::arg("host_too") = false,
             py::arg("keep_f32") = std::vector<std::string>{});
}

}  // namespace refactor::python
