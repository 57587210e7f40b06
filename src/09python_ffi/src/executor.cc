#include "arrays.h"
#include "common/error.h"
#include "errors.h"
#include "kernel/program.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "py_executor.h"

#include <algorithm>

#include <pybind11/functional.h>
#include <pybind11/stl.h>

namespace refactor::python {

namespace {

/// The C++ object of an instance, without pybind11's checks: for slots, which CPython calls with the right type only.
PyExecutor* self_of(PyObject* object) {
    auto* instance = reinterpret_cast<py::detail::instance*>(object);
    auto* value =
        instance->simple_layout ? instance->simple_value_holder[0] : instance->nonsimple.values_and_holders[0];
    if (!value) throw InvalidInput("the executor was not initialised: a subclass must call super().__init__()");
    return static_cast<PyExecutor*>(value);
}

/// `tp_call` itself: the way through pybind11's dispatcher would cost as much as the run of a small model.
PyObject* call(PyObject* self, PyObject* arguments, PyObject* keywords) {
    try {
        return self_of(self)->call(arguments, keywords);
    } catch (py::error_already_set& error) {
        error.restore();
    } catch (...) {
        set_python_error(std::current_exception());
    }
    return nullptr;
}

void run(PyExecutor& self, std::optional<double> timeout, runtime::CancellationToken const* token,
         std::optional<uint64_t> stream) {
    PyExecutor::Use use(self);
    runtime::RunOptions options;
    options.token = token, options.stream = stream;
    if (timeout) options.deadline = deadline_after(*timeout);
    self.run(options);
}

py::list profile(PyExecutor& self, int repeats, bool sync) {
    PyExecutor::Use use(self);
    std::vector<runtime::StepProfile> rows;
    {
        py::gil_scoped_release release;
        rows = self.native().profile(repeats, sync);
    }
    py::list out;
    for (auto const& row : rows)
        out.append(
            py::make_tuple(row.node, row.type, row.kernel, row.shape, row.nanoseconds, row.operations, row.bytes));
    return out;
}

void trace(PyExecutor& self, py::function const& visit) {
    PyExecutor::Use use(self);
    self.native().trace([&](uint32_t step, std::string const& node, runtime::TracedTensor const& tensor,
                            bool is_output) {
        visit(step, node, tensor.edge, tensor.name, copy_to_array(tensor.dtype, tensor.dims, tensor.data), is_output);
    });
}

std::string describe(runtime::Plan const& plan, runtime::Planner const& planner) {
    static constexpr char const* kStorage[] = {"arena", "input", "output", "constant"};
    std::string text;
    auto argument = [&](uint32_t number) {
        if (number == runtime::kNoTensor) return std::string("-");
        auto const& tensor = plan.tensors[number];
        bool made = std::any_of(plan.made.begin(), plan.made.end(),
                                [&](auto const& blob) { return blob.get() == tensor.constant; });
        auto part = planner.edge_name(tensor.edge) + ":" + runtime::describe(tensor.dtype, tensor.dims) + "@" +
                    (made ? "made" : kStorage[static_cast<int>(tensor.storage)]);
        if (tensor.storage == runtime::Storage::Arena)
            part += "+" + std::to_string(plan.blocks[tensor.index].offset + tensor.offset);
        return part;
    };
    for (size_t i = 0; i < plan.steps.size(); ++i) {
        auto const& step = plan.steps[i];
        text += std::to_string(i) + "\t" + planner.node_name(step.node) + "\t" + planner.node_type(step.node) + "\t" +
                plan.kernel_ids[step.kernel] + "\t(";
        for (uint32_t k = 0; k < step.inputs; ++k)
            text += (k ? ", " : "") + argument(plan.arguments[step.first_argument + k]);
        text += ") ->";
        for (uint32_t k = 0; k < step.outputs; ++k)
            text += " " + argument(plan.arguments[step.first_argument + step.inputs + k]);
        text += "\n";
    }
    return text;
}

/// The plans of all programs and the procedures between them; those of the last run, if there are several.
std::string describe(PyExecutor& self) {
    auto& native = self.native();
    if (!native.is_planned()) throw InvalidInput("the model consists of several programs and has not run yet");
    std::string text;
    auto executors = native.executors();
    size_t next = 0;
    for (auto const& call : native.executable().calls) {
        if (call.planner) {
            auto* executor = executors[next++];
            text += describe(executor->plan(), executor->planner());
        } else {
            text += "-\t" + call.name + "\t" + call.type + "\t" + call.procedure->id() + "\n";
        }
    }
    return text;
}

py::dict memory(PyExecutor& self) {
    PyExecutor::Use use(self);
    auto& native = self.native();
    if (!native.is_planned()) throw InvalidInput("the model consists of several programs and has not run yet");
    size_t planned = 0, lower_bound = 0, made = 0, weights = 0, packed = 0;
    for (auto* executor : native.executors()) {
        auto const& plan = executor->plan();
        planned += plan.arena_bytes, lower_bound += plan.lower_bound, made += plan.made_bytes;
    }
    for (auto const& program : self.program().programs) {
        packed += program->packed_bytes();
        for (auto const& edge : program->parts().edges)
            if (edge.constant) weights += edge.constant->bytes();
    }
    py::dict out;
    out["held"] = native.memory_bytes();
    out["planned"] = planned;
    out["lower_bound"] = lower_bound;
    out["made"] = made;
    out["weights"] = weights;
    out["packed_weights"] = packed;
    return out;
}

std::vector<PyPort> ports(std::vector<runtime::PortInfo> const& infos) {
    std::vector<PyPort> out;
    for (auto const& info : infos) out.push_back(make_port(info));
    return out;
}

void bind_debugging(py::class_<PyExecutor>& type) {
    type.def("profile", &profile, py::arg("repeats"), py::arg("sync") = true)
        .def(
            "allow_recording",
            [](PyExecutor& self, bool allowed) {
                PyExecutor::Use use(self);
                self.native().allow_recording(allowed);
            },
            py::arg("allowed"))
        .def_property_readonly("recording", [](PyExecutor& self) { return self.native().recording_state(); })
        .def("visit", &trace, py::arg("visit"))
        .def("describe_plan",
             [](PyExecutor& self) {
                 PyExecutor::Use use(self);
                 return describe(self);
             })
        .def(
            "memory", &memory,
            "Bytes: `held` by the executor (arena and the scratch memory of its threads), `planned` for the arena, its "
            "`lower_bound`, what was `made` with the plan for it follows from the sizes alone, `weights` of the model "
            "and `packed_weights`.")
        .def("trim", [](PyExecutor& self) {
            PyExecutor::Use use(self);
            self.native().trim();
        });
}

void bind_values(py::class_<PyExecutor>& type) {
    type.def(
            "set_input",
            [](PyExecutor& self, py::handle key, py::handle array) {
                PyExecutor::Use use(self);
                self.set_input(self.input_index(key), array, true);
            },
            py::arg("key"), py::arg("array"))
        .def(
            "carry",
            [](PyExecutor& self, py::dict const& states) {
                PyExecutor::Use use(self);
                std::vector<std::pair<size_t, size_t>> pairs;
                for (auto const& [input, output] : states)
                    pairs.emplace_back(self.output_index(output), self.input_index(input));
                self.carry(std::move(pairs));
            },
            py::arg("states"))
        .def(
            "get_output",
            [](PyExecutor& self, py::handle key) {
                PyExecutor::Use use(self);
                return self.output(self.output_index(key));
            },
            py::arg("key"))
        .def(
            "set_input_blob",
            [](PyExecutor& self, py::handle key, py::handle array) {
                PyExecutor::Use use(self);
                self.set_input(self.input_index(key), array, false);
            },
            py::arg("key"), py::arg("array"))
        .def(
            "get_output_blob",
            [](PyExecutor& self, py::handle key) {
                PyExecutor::Use use(self);
                return self.output_blob(self.output_index(key));
            },
            py::arg("key"));
}

void bind_places(py::class_<PyExecutor>& type) {
    type.def_property_readonly(
            "device", [](PyExecutor& self) { return &self.native().device(); }, py::return_value_policy::reference)
        .def(
            "dispatch",
            [](PyExecutor& self, mem_manager::Device& device, std::string allocator) {
                PyExecutor::Use use(self);
                self.native().dispatch(device, std::move(allocator));
            },
            py::arg("device"), py::arg("allocator"))
        .def(
            "retarget",
            [](PyExecutor& self, PyProgram program, mem_manager::Device& device, std::string allocator) {
                PyExecutor::Use use(self);
                self.retarget(std::move(program), device, std::move(allocator));
            },
            py::arg("program"), py::arg("device"), py::arg("allocator"));
}

}  // namespace

void bind_executor(py::module_& module) {
    py::class_<runtime::CancellationToken>(module, "CancellationToken", "Asks a run to stop, from any thread.")
        .def(py::init<>())
        .def("cancel", &runtime::CancellationToken::cancel)
        .def_property_readonly("cancelled", &runtime::CancellationToken::cancelled);

    py::class_<PyExecutor> type(module, "Executor",
                                py::custom_type_setup([](PyHeapTypeObject* heap) { heap->ht_type.tp_call = &call; }),
                                "Runs a program.");
    type.def(py::init<PyProgram, std::string, int>(), py::arg("program"), py::arg("allocator"), py::arg("threads"))
        .def(py::init<PyExecutor const&>(), py::arg("other"))
        .def_property_readonly("program", &PyExecutor::program, py::return_value_policy::reference_internal)
        .def_property_readonly("inputs", [](PyExecutor& self) { return ports(self.native().executable().inputs); })
        .def_property_readonly("outputs", [](PyExecutor& self) { return ports(self.native().executable().outputs); })
        .def_property_readonly("num_threads", [](PyExecutor& self) { return self.native().threads(); })
        .def_property_readonly("allocator", [](PyExecutor& self) { return self.native().allocator(); })
        .def("run", &run, py::arg("timeout") = py::none(), py::arg("token") = py::none(),
             py::arg("stream") = py::none());
    bind_values(type);
    bind_places(type);
    bind_debugging(type);
}

}  // namespace refactor::python
