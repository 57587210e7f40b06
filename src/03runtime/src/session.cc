#include "runtime/session.h"

#include "common/error.h"
#include "common/thread_pool.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "mem_manager/stream.h"

#include <algorithm>
#include <utility>

namespace refactor::runtime {

namespace {

using Clock = std::chrono::steady_clock;

// Numbers of edges, as tracers see them, are made distinct over all programs of a model.
constexpr int kEdgeBits = 24;

bool is_plain_tensor(Value const& value) { return value.kind == ValueKind::Tensor && value.blob != nullptr; }

void add_context(Error& error, Call const& call) { error.add_context(call.type + " node \"" + call.name + '"'); }

}  // namespace

std::shared_ptr<Planner> Executable::single() const {
    if (calls.size() != 1 || !calls[0].planner || !constants.empty()) return nullptr;
    bool same = calls[0].inputs == input_values && calls[0].outputs == output_values;
    return same ? calls[0].planner : nullptr;
}

/// What a session keeps for one call.
struct Session::Lane {
    std::unique_ptr<Executor> executor;
    std::unique_ptr<ProcedureState> state;
    std::vector<Value const*> inputs;  ///< scratch for the arguments of a procedure
    std::vector<Value> outputs;        ///< as a procedure left them, so that it can use their memory again
};

Session::Session(std::shared_ptr<Executable const> executable, std::string allocator, int threads,
                 mem_manager::Device* device, std::shared_ptr<ThreadPool> pool)
    : executable_(std::move(executable)), allocator_(std::move(allocator)), device_(device), pool_(std::move(pool)) {
    if (!device_) device_ = &mem_manager::find_device(executable_->device, 0);
    if (!pool_) pool_ = std::make_shared<ThreadPool>(threads > 0 ? threads : default_thread_count());
    values_.resize(executable_->values);
    for (auto const& [number, value] : executable_->constants) values_[number] = value;
    host_values_.resize(executable_->values);
    for (auto const& call : executable_->calls) {
        auto& lane = lanes_.emplace_back();
        if (call.planner)
            lane.executor = std::make_unique<Executor>(call.planner, allocator_, 0, &device_of(call), pool_);
        else
            lane.state = call.procedure->make_state(), lane.outputs.resize(call.outputs.size());
    }
    if (executable_->single()) single_ = lanes_[0].executor.get();
}

Session::~Session() = default;
Session::Session(Session&&) noexcept = default;

/// Of a model for several kinds of devices, some programs run on the host.
mem_manager::Device& Session::device_of(Call const& call) const {
    return call.planner->device_kind() == device_->kind() ? *device_ : mem_manager::cpu_device();
}

int Session::threads() const { return pool_->threads(); }

std::vector<Executor*> Session::executors() {
    std::vector<Executor*> all;
    for (auto& lane : lanes_)
        if (lane.executor) all.push_back(lane.executor.get());
    return all;
}

void Session::check_input(size_t index, Value const& value) const {
    if (index >= executable_->inputs.size())
        throw InvalidInput("input number " + std::to_string(index) + " does not exist: the model has " +
                           std::to_string(executable_->inputs.size()));
    auto const& port = executable_->inputs[index];
    auto refuse = [&](std::string const& expected) {
        throw InvalidInput("input \"" + port.name + "\": expected " + expected + ", got " + describe(value));
    };
    auto const& content = port.kind == ValueKind::Optional ? *port.element : port;
    if (port.kind == ValueKind::Optional && value.kind == ValueKind::Optional) return;
    if (value.kind != content.kind) refuse("a " + std::string(name_of(content.kind)));
    if (content.kind != ValueKind::Tensor) return;
    bool fits = value.dtype == content.dtype && (!content.ranked || value.dims.size() == content.dims.size());
    for (size_t i = 0; fits && content.ranked && i < content.dims.size(); ++i)
        fits = content.dims[i] < 0 || content.dims[i] == value.dims[i];
    if (!fits) refuse(std::string(refactor::name_of(content.dtype)) + content.shape);
    if (value.unset()) refuse("data");
}

void Session::set_input(size_t index, Value value) {
    if (single_) return single_->set_input(index, std::move(value));
    check_input(index, value);
    values_[executable_->input_values[index]] = std::move(value);
}

Value const& Session::input(size_t index) const {
    return single_ ? single_->input(index) : values_[executable_->input_values[index]];
}

void Session::check_carried(size_t output, size_t input) const {
    auto const &from = executable_->outputs[output], &to = executable_->inputs[input];
    bool fits = from.kind == to.kind && from.dtype == to.dtype &&
                (!from.ranked || !to.ranked || from.dims.size() == to.dims.size());
    for (size_t i = 0; fits && from.ranked && to.ranked && i < from.dims.size(); ++i)
        fits = from.dims[i] < 0 || to.dims[i] < 0 || from.dims[i] == to.dims[i];
    auto text = [](PortInfo const& port) {
        auto type = std::string(refactor::name_of(port.dtype)) + port.shape;
        return '"' + port.name + "\", " +
               (port.kind == ValueKind::Tensor ? type : "a " + std::string(name_of(port.kind)));
    };
    if (!fits) throw InvalidInput("output " + text(from) + ", cannot become input " + text(to));
}

void Session::carry(std::vector<std::pair<size_t, size_t>> pairs) {
    for (size_t i = 0; i < pairs.size(); ++i) {
        check_carried(pairs[i].first, pairs[i].second);
        for (size_t k = 0; k < i; ++k)
            if (pairs[k].second == pairs[i].second)
                throw InvalidInput("input \"" + executable_->inputs[pairs[i].second].name + "\" is carried twice");
    }
    carried_ = std::move(pairs);
    if (single_) single_->carry(carried_);
}

void Session::check_output(size_t index) const {
    if (index >= executable_->outputs.size())
        throw InvalidInput("output number " + std::to_string(index) + " does not exist: the model has " +
                           std::to_string(executable_->outputs.size()));
    if (!ran_)
        throw InvalidInput("output \"" + executable_->outputs[index].name +
                           "\" has no value: the executor has not run");
}

Value const& Session::output(size_t index) const {
    if (single_) return single_->output(index);
    check_output(index);
    return host_value(executable_->output_values[index]);
}

Value Session::device_output(size_t index, bool exported) const {
    if (single_) return single_->device_output(index, exported);
    check_output(index);
    auto number = executable_->output_values[index];
    for (size_t i = 0; exported && i < lanes_.size(); ++i) {
        auto const& outputs = executable_->calls[i].outputs;
        auto found = std::find(outputs.begin(), outputs.end(), number);
        if (lanes_[i].executor && found != outputs.end())
            return lanes_[i].executor->device_output(static_cast<size_t>(found - outputs.begin()), true);
    }
    exported_ |= exported;
    return values_[number];
}

/// A value in the host's memory, copied once.
Value const& Session::host_value(uint32_t number) const {
    auto const& value = values_[number];
    if (!value.blob || &value.blob->device() == &mem_manager::cpu_device()) {
        if (!value.contents) return value;
    }
    auto& copy = host_values_[number];
    if (copy.unset()) copy = on_host(value);
    return copy;
}

/// Lets go of what the last run computed, so that its memory can be written again in place.
void Session::release_values() {
    for (auto& lane : lanes_)
        if (lane.executor) lane.executor->release_inputs();
    for (auto const& call : executable_->calls)
        for (auto number : call.outputs)
            if (number != kNoValue) values_[number] = {};
    for (auto& value : host_values_) value = {};
}

void Session::call_procedure(Lane& lane, Call const& call, RunOptions const& options) {
    if (options.token && options.token->cancelled()) throw Cancelled("the run was cancelled");
    if (options.deadline && Clock::now() >= *options.deadline) throw Cancelled("the run timed out");
    lane.inputs.clear();
    bool anywhere = call.procedure->takes_any_device();
    for (auto number : call.inputs)
        lane.inputs.push_back(number == kNoValue ? nullptr : anywhere ? &values_[number] : &host_value(number));
    try {
        call.procedure->call(lane.inputs, lane.outputs,
                             {pool_, options, lane.state.get(), allocator_, device_, may_record_});
    } catch (Cancelled&) {
        throw;
    } catch (Error& error) {
        add_context(error, call);
        throw;
    }
    for (size_t i = 0; i < call.outputs.size(); ++i)
        if (call.outputs[i] != kNoValue) values_[call.outputs[i]] = lane.outputs[i];
}

mem_manager::Stream* Session::stream() const {
    for (auto const& lane : lanes_)
        if (auto* stream = lane.executor ? lane.executor->stream() : nullptr) return stream;
    return nullptr;
}

/// What comes next may read inputs on the host.
void Session::wait_for(uint64_t foreign) {
    if (auto* own = stream())
        own->wait_for(foreign), own->synchronize();
    else if (device_->kind() != "cpu")
        mem_manager::wait_for_device(*device_);
}

/// `before(lane, call)` returns whether it ran a program by itself.
template <class Before, class After>
void Session::run_calls(RunOptions const& options, Before&& before, After&& after) {
    std::string unset;
    for (size_t i = 0; i < executable_->inputs.size(); ++i)
        if (values_[executable_->input_values[i]].unset())
            unset += (unset.empty() ? "\"" : ", \"") + executable_->inputs[i].name + '"';
    if (!unset.empty()) throw InvalidInput("no value was set for input " + unset);
    if (std::exchange(exported_, false)) mem_manager::wait_for_device(*device_);
    release_values();
    ran_ = false;
    if (options.stream) wait_for(*options.stream);
    for (uint32_t i = 0; i < lanes_.size(); ++i) {
        auto const& call = executable_->calls[i];
        auto& lane = lanes_[i];
        if (!lane.executor) {
            before(i);
            call_procedure(lane, call, options);
            after(i);
            continue;
        }
        bool on_device = lane.executor->stream() != nullptr;
        for (size_t k = 0; k < call.inputs.size(); ++k)
            lane.executor->set_input(k, on_device ? values_[call.inputs[k]] : host_value(call.inputs[k]));
        if (!before(i)) lane.executor->run(options);
        if (options.stream) lane.executor->settle();
        for (size_t k = 0; k < call.outputs.size(); ++k)
            if (call.outputs[k] != kNoValue) values_[call.outputs[k]] = lane.executor->device_output(k);
        after(i);
    }
    ran_ = true;
}

void Session::run(RunOptions const& options) {
    if (single_) return single_->run(options);
    run_calls(options, [](uint32_t) { return false; }, [](uint32_t) {});
    for (auto const& [output, input] : carried_)
        values_[executable_->input_values[input]] = values_[executable_->output_values[output]];
}

std::vector<StepProfile> Session::profile(int repeats, bool sync) {
    if (single_) return single_->profile(repeats, sync);
    std::vector<StepProfile> best;
    for (int repeat = 0; repeat < repeats; ++repeat) {
        std::vector<StepProfile> rows;
        Clock::time_point start;
        run_calls(
            {},
            [&](uint32_t i) {
                start = Clock::now();
                if (!lanes_[i].executor) return false;
                for (auto& row : lanes_[i].executor->profile(1, sync)) rows.push_back(std::move(row));
                return true;
            },
            [&](uint32_t i) {
                if (lanes_[i].executor) return;
                auto const& call = executable_->calls[i];
                auto const& first = lanes_[i].outputs;
                rows.push_back({0, call.name, call.type, call.procedure->id(),
                                first.empty() ? std::string() : describe(first[0]),
                                std::chrono::duration<double, std::nano>(Clock::now() - start).count(), 0, 0});
            });
        for (uint32_t i = 0; i < rows.size(); ++i) {
            rows[i].step = i;
            if (best.size() == rows.size()) rows[i].nanoseconds = std::min(rows[i].nanoseconds, best[i].nanoseconds);
        }
        best = std::move(rows);
    }
    return best;
}

void Session::trace(TraceVisitor const& visit) {
    if (single_) return single_->trace(visit);
    uint32_t steps = 0;
    auto show = [&](uint32_t i, uint32_t number, bool is_output) {
        if (number == kNoValue || !is_plain_tensor(values_[number])) return;
        auto const& value = host_value(number);
        auto name = "value" + std::to_string(number);
        visit(steps, executable_->calls[i].name,
              {static_cast<uint32_t>(lanes_.size()) << kEdgeBits | number, name, value.dtype, value.dims,
               value.blob->data(), value.blob->bytes()},
              is_output);
    };
    run_calls(
        {},
        [&](uint32_t i) {
            if (!lanes_[i].executor) {
                for (auto number : executable_->calls[i].inputs) show(i, number, false);
                return false;
            }
            uint32_t last = 0;
            lanes_[i].executor->trace([&](uint32_t step, std::string const& node, TracedTensor const& t, bool out) {
                last = step + 1;
                visit(steps + step, node, {i << kEdgeBits | t.edge, t.name, t.dtype, t.dims, t.data, t.bytes}, out);
            });
            steps += last;
            return true;
        },
        [&](uint32_t i) {
            if (lanes_[i].executor) return;
            for (auto number : executable_->calls[i].outputs) show(i, number, true);
            ++steps;
        });
}

std::unique_ptr<Session> Session::clone() const {
    auto copy = std::make_unique<Session>(executable_, allocator_, threads(), device_);
    if (!may_record_) copy->allow_recording(false);
    for (size_t i = 0; i < executable_->inputs.size(); ++i)
        if (!input(i).unset()) copy->set_input(i, input(i));
    copy->carry(carried_);
    return copy;
}

void Session::dispatch(mem_manager::Device& device, std::string allocator) {
    auto const* former = device_;
    if (device.kind() != former->kind() && !single_)
        throw Unsupported("dispatch to " + device.name() + ": the model was compiled for devices of kind \"" +
                          executable_->device + '"');
    for (size_t i = 0; i < lanes_.size(); ++i) {
        auto& lane = lanes_[i];
        if (!lane.executor) {
            lane.state = executable_->calls[i].procedure->make_state();
            continue;
        }
        bool follows = &lane.executor->device() == former;
        lane.executor->dispatch(follows ? device : lane.executor->device(), allocator);
    }
    device_ = &device, allocator_ = std::move(allocator);
}

size_t Session::memory_bytes() const {
    size_t total = 0;
    for (auto const& lane : lanes_)
        if (lane.executor) total += lane.executor->memory_bytes();
    return total;
}

void Session::allow_recording(bool allowed) {
    may_record_ = allowed;
    for (auto& lane : lanes_)
        if (lane.executor) lane.executor->allow_recording(allowed);
}

std::string Session::recording_state() const {
    std::string text;
    for (size_t i = 0; i < lanes_.size(); ++i) {
        auto const& call = executable_->calls[i];
        auto name = call.planner ? "program " + std::to_string(i) : call.type + " node \"" + call.name + '"';
        auto const& lane = lanes_[i];
        if (call.planner) {
            text += name + ": " + lane.executor->recording_state() + '\n';
            continue;
        }
        bool on_host = call.procedure->device_kind() == "cpu";
        text += name + ": " + call.procedure->id() +
                (on_host ? " runs on the host\n" : " cannot be recorded: its sizes are read while it runs\n");
        auto inside = lane.state ? lane.state->recording_state() : std::string();
        for (size_t from = 0, end; (end = inside.find('\n', from)) != std::string::npos; from = end + 1)
            text += "  " + inside.substr(from, end + 1 - from);
    }
    return text;
}

void Session::trim() {
    for (auto& lane : lanes_)
        if (lane.executor) lane.executor->trim();
}

}  // namespace refactor::runtime
