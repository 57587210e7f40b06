#include "py_executor.h"

#include "array_parts.h"
#include "common/error.h"
#include "kernel/program.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "mem_manager/pinned.h"
#include "mem_manager/stream.h"

#include <algorithm>
#include <cstring>

namespace refactor::python {

using runtime::PortInfo;

namespace {

/// Below this estimate a run keeps the GIL: handing it over costs a few hundred ns, and far more if another thread
/// takes it meanwhile.
constexpr double kShortRunNs = 20'000;
/// Pessimistic speed of any kernel here: operations and bytes a ns, and fixed cost of a step in ns.
constexpr double kOperationsPerNs = 4, kBytesPerNs = 4, kStepNs = 100;

PyObject* intern(std::string const& text) {
    auto* name = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
    if (!name) throw py::error_already_set();
    PyUnicode_InternInPlace(&name);
    return name;
}

std::string names_of(std::vector<PortInfo> const& ports) {
    std::string text;
    for (auto const& port : ports) text += (text.empty() ? "\"" : ", \"") + port.name + '"';
    return text.empty() ? "none" : text;
}

size_t index_of(py::handle key, std::vector<py::object> const& names, std::vector<PortInfo> const& ports,
                char const* what) {
    for (size_t i = 0; i < names.size(); ++i)
        if (names[i].ptr() == key.ptr()) return i;
    if (PyUnicode_Check(key.ptr())) {
        for (size_t i = 0; i < names.size(); ++i)
            if (PyUnicode_Compare(names[i].ptr(), key.ptr()) == 0) return i;
        throw InvalidInput(std::string("the model has no ") + what + " " + py::repr(key).cast<std::string>() +
                           ", it has: " + names_of(ports));
    }
    if (PyIndex_Check(key.ptr()) && !PyBool_Check(key.ptr())) {
        auto index = PyNumber_AsSsize_t(key.ptr(), nullptr);
        if (index == -1 && PyErr_Occurred()) throw py::error_already_set();
        if (index >= 0 && static_cast<size_t>(index) < names.size()) return static_cast<size_t>(index);
        throw InvalidInput(std::string(what) + " number " + std::to_string(index) + " does not exist: the model has " +
                           std::to_string(names.size()));
    }
    throw InvalidInput(std::string(what) + ": expected a number or a name, got " + Py_TYPE(key.ptr())->tp_name);
}

}  // namespace

PyExecutor::PyExecutor(PyProgram program, std::string allocator, int threads) : program_(std::move(program)) {
    native_ = std::make_unique<runtime::Session>(program_.executable, std::move(allocator), threads);
    take_names();
}

PyExecutor::PyExecutor(PyExecutor const& other) : program_(other.program_), native_(other.native_->clone()) {
    take_names();
}

void PyExecutor::take_names() {
    auto const& executable = native_->executable();
    for (auto const& port : executable.inputs)
        input_names_.push_back(py::reinterpret_steal<py::object>(intern(port.name)));
    for (auto const& port : executable.outputs)
        output_names_.push_back(py::reinterpret_steal<py::object>(intern(port.name)));
    given_.resize(input_names_.size()), carried_outputs_.assign(output_names_.size(), 0);
    for (auto const& [output, input] : native_->carried()) carried_outputs_[output] = 1;
}

void PyExecutor::carry(std::vector<std::pair<size_t, size_t>> pairs) {
    native_->carry(std::move(pairs));
    std::fill(carried_outputs_.begin(), carried_outputs_.end(), uint8_t{0});
    for (auto const& [output, input] : native_->carried()) carried_outputs_[output] = 1;
}

PyExecutor::Use::Use(PyExecutor& executor) : flag_(executor.used_) {
    if (flag_.test_and_set(std::memory_order_acquire))
        throw InvalidInput("the executor is in use by another thread: give each thread its own clone()");
}

size_t PyExecutor::input_index(py::handle key) const {
    return index_of(key, input_names_, native_->executable().inputs, "input");
}

size_t PyExecutor::output_index(py::handle key) const {
    return index_of(key, output_names_, native_->executable().outputs, "output");
}

runtime::Value PyExecutor::value_for(py::handle array, PortInfo const& port, bool copy) const {
    auto* stream = native_->stream();
    bool is_array = PyObject_TypeCheck(array.ptr(), api().PyArray_Type_);
    if (!is_array)
        if (auto value = device_value(array, port, stream)) {
            // Another program of the model may read it first.
            if (stream && !native_->single()) stream->synchronize();
            return *value;
        }
    if (!stream || !copy) return to_value(array, port, copy ? Ownership::Copy : Ownership::Share);
    auto value = to_value(array, port, Ownership::Share);
    if (!value.blob) return value;
    auto pinned = mem_manager::make_pinned(stream->device(), value.blob->bytes());
    std::memcpy(pinned->data(), value.blob->data(), value.blob->bytes());
    value.blob = std::move(pinned);
    return value;
}

void PyExecutor::set_input(size_t index, py::handle array, bool copy) {
    auto const& port = native_->executable().inputs[index];
    auto value = value_for(array, port, copy);
    auto const& old = native_->input(index);
    sizes_changed_ |= old.unset() || !(old.dims == value.dims);
    native_->set_input(index, std::move(value));
}

void PyExecutor::retarget(PyProgram program, mem_manager::Device& device, std::string allocator) {
    auto fresh =
        std::make_unique<runtime::Session>(program.executable, std::move(allocator), native_->threads(), &device);
    for (size_t i = 0; i < input_names_.size(); ++i)
        if (!native_->input(i).unset()) fresh->set_input(i, native_->input(i));
    fresh->carry(native_->carried());
    native_ = std::move(fresh), program_ = std::move(program);
    weighed_ = nullptr, short_ = false, sizes_changed_ = true, ordered_in_.reset();
}

void PyExecutor::weigh() {
    sizes_changed_ = false;
    auto* executor = native_->single();
    if (!executor) return;
    auto const* plan = executor->last_plan();
    if (!plan || weighed_ == plan) return;
    weighed_ = plan;
    double ns = kStepNs * static_cast<double>(plan->steps.size());
    for (auto const& step : plan->steps) ns += step.task->operations() / kOperationsPerNs;
    for (auto const& tensor : plan->tensors) ns += static_cast<double>(tensor.bytes) / kBytesPerNs;
    short_ = ns < kShortRunNs;
}

void PyExecutor::run(runtime::RunOptions const& options) {
    ordered_in_ = native_->single() ? options.stream : std::nullopt;
    if (short_ && !sizes_changed_) return native_->run(options);
    {
        py::gil_scoped_release release;
        native_->run(options);
    }
    weigh();
}

DeviceArray PyExecutor::output_blob(size_t index) { return {native_->device_output(index, true), ordered_in_}; }

py::object PyExecutor::output(size_t index) const {
    return py::reinterpret_steal<py::object>(to_array(native_->output(index)));
}

void PyExecutor::set_inputs(PyObject* arguments) {
    auto count = PyTuple_GET_SIZE(arguments);
    if (count != 1 || !PyDict_Check(PyTuple_GET_ITEM(arguments, 0))) {
        if (static_cast<size_t>(count) != input_names_.size())
            throw InvalidInput("expected a dict of inputs, or " + std::to_string(input_names_.size()) +
                               " arrays in the order " + names_of(native_->executable().inputs) + "; got " +
                               std::to_string(count));
        for (Py_ssize_t i = 0; i < count; ++i) set_input(static_cast<size_t>(i), PyTuple_GET_ITEM(arguments, i), false);
        return;
    }
    std::fill(given_.begin(), given_.end(), uint8_t{0});
    PyObject *key = nullptr, *value = nullptr;
    Py_ssize_t position = 0;
    size_t next = 0;  // a dict in the order of the model needs no search
    while (PyDict_Next(PyTuple_GET_ITEM(arguments, 0), &position, &key, &value)) {
        auto index = next < input_names_.size() && input_names_[next].ptr() == key ? next : input_index(key);
        set_input(index, value, false);
        given_[index] = 1, next = index + 1;
    }
    for (auto const& [output, input] : native_->carried()) given_[input] |= !native_->input(input).unset();
    auto missing = std::find(given_.begin(), given_.end(), uint8_t{0});
    if (missing != given_.end())
        throw InvalidInput("input \"" +
                           native_->executable().inputs[static_cast<size_t>(missing - given_.begin())].name +
                           "\" is missing; the model has: " + names_of(native_->executable().inputs));
}

PyObject* PyExecutor::call(PyObject* arguments, PyObject* keywords) {
    runtime::RunOptions options;
    if (keywords && PyDict_GET_SIZE(keywords)) {
        for (auto item : py::reinterpret_borrow<py::dict>(keywords)) {
            auto name = item.first.cast<std::string>();
            if (name != "token" && name != "timeout")
                throw InvalidInput("unexpected argument \"" + name + "\", expected one of: timeout, token");
            if (item.second.is_none()) continue;
            auto refuse = [&](char const* expected) {
                throw InvalidInput(name + ": expected " + expected + ", got " + Py_TYPE(item.second.ptr())->tp_name);
            };
            if (name == "timeout") {
                if (!PyNumber_Check(item.second.ptr())) refuse("seconds");
                options.deadline = deadline_after(item.second.cast<double>());
            } else {
                if (!py::isinstance<runtime::CancellationToken>(item.second)) refuse("a CancellationToken");
                options.token = item.second.cast<runtime::CancellationToken const*>();
            }
        }
    }
    Use use(*this);
    set_inputs(arguments);
    run(options);
    if (auto const* executor = native_->single()) executor->fetch_outputs();
    auto outputs = py::reinterpret_steal<py::object>(PyDict_New());
    if (!outputs) throw py::error_already_set();
    for (size_t i = 0; i < output_names_.size(); ++i)
        if (!carried_outputs_[i] && PyDict_SetItem(outputs.ptr(), output_names_[i].ptr(), output(i).ptr()) != 0)
            throw py::error_already_set();
    return outputs.release().ptr();
}

std::chrono::steady_clock::time_point deadline_after(double seconds) {
    if (!(seconds >= 0)) throw InvalidInput("timeout: expected seconds, at least 0, got " + std::to_string(seconds));
    constexpr double kForever = 1e9;  // 30 years; more would overflow the clock
    return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                  std::chrono::duration<double>(std::min(seconds, kForever)));
}

}  // namespace refactor::python
