#include "frontend/saved.h"

#include "common/error.h"
#include "frontend/recorded.h"
#include "mem_manager/device.h"

namespace refactor::frontend {

namespace {

using computation::GraphReader;
using computation::GraphWriter;
using computation::LoadOptions;
using runtime::Call;
using runtime::Executable;

/// Everything of an executable but its calls and constants.
struct Frame {
    std::vector<runtime::PortInfo> inputs, outputs;
    uint32_t values = 0;
    std::vector<uint32_t> input_values, output_values;
    std::string device;
    std::vector<computation::PassReport> passes;
};

[[noreturn]] void fail(char const* what) { throw InvalidModel(std::string("not what was written: ") + what); }

RecordedProcedure const* recorded(Call const& call) {
    return dynamic_cast<RecordedProcedure const*>(call.procedure->origin.get());
}

void refuse_others(Executable const& executable) {
    std::string text;
    for (auto const& call : executable.calls)
        if (call.procedure && !recorded(call))
            text += concat("\n  ", call.type, " node \"", call.name, "\": ", call.procedure->id(),
                           " runs code of the user, or is compiled when it runs");
    if (!text.empty()) throw Unsupported("these node(s) cannot be saved:" + text);
}

void check_numbers(std::vector<uint32_t> const& numbers, uint32_t values, bool may_lack) {
    for (auto number : numbers)
        if (number >= values && !(may_lack && number == runtime::kNoValue)) fail("a value has a number out of range");
}

void check(Frame const& frame) {
    check_numbers(frame.input_values, frame.values, false);
    check_numbers(frame.output_values, frame.values, false);
    bool fits = frame.inputs.size() == frame.input_values.size() && frame.outputs.size() == frame.output_values.size();
    if (!fits) fail("inputs or outputs without values");
}

class Reading {
    GraphReader& reader_;
    LoadOptions const& options_;
    Compiled result_;
    std::shared_ptr<Executable> executable_ = std::make_shared<Executable>();

    void read_call() {
        Call call;
        call.name = reader_.read<std::string>(), call.type = reader_.read<std::string>();
        call.inputs = reader_.read<std::vector<uint32_t>>(), call.outputs = reader_.read<std::vector<uint32_t>>();
        bool is_procedure = reader_.read<bool>();
        check_numbers(call.inputs, executable_->values, is_procedure);
        check_numbers(call.outputs, executable_->values, is_procedure);
        if (is_procedure) {
            auto const& kind = executable_->device;
            auto* place = kind == "cpu" ? nullptr : &mem_manager::find_device(kind, 0);
            call.procedure = read_procedure(reader_, ArgumentReader(reader_, options_, place));
        } else {
            auto program = computation::read_program(reader_, options_);
            if (program->inputs().size() != call.inputs.size() || program->outputs().size() != call.outputs.size())
                fail("a program with other inputs or outputs than its call");
            result_.programs.push_back(program), call.planner = std::move(program);
        }
        executable_->calls.push_back(std::move(call));
    }

public:
    Reading(GraphReader& reader, LoadOptions const& options) : reader_(reader), options_(options) {}

    Compiled run() {
        GraphReader::Nested nested(reader_);
        auto frame = reader_.read<Frame>();
        check(frame);
        executable_->values = frame.values, executable_->device = std::move(frame.device);
        for (auto count = reader_.read<uint32_t>(); count > 0; --count) read_call();
        ArgumentReader values(reader_, options_, nullptr);
        for (auto count = reader_.read<uint32_t>(); count > 0; --count) {
            auto number = reader_.read<uint32_t>();
            check_numbers({number}, executable_->values, false);
            executable_->constants.emplace_back(number, values.read<runtime::Value>());
        }
        executable_->inputs = std::move(frame.inputs), executable_->outputs = std::move(frame.outputs);
        executable_->input_values = std::move(frame.input_values);
        executable_->output_values = std::move(frame.output_values);
        result_.executable = std::move(executable_), result_.passes = std::move(frame.passes);
        return std::move(result_);
    }
};

}  // namespace

void write(GraphWriter& writer, Compiled const& model) {
    auto const& executable = *model.executable;
    refuse_others(executable);
    auto passes = model.passes;
    for (auto& pass : passes) pass.graph.clear();
    writer.write(Frame{executable.inputs, executable.outputs, executable.values, executable.input_values,
                       executable.output_values, executable.device, std::move(passes)});
    writer.write(static_cast<uint32_t>(executable.calls.size()));
    size_t next = 0;
    for (auto const& call : executable.calls) {
        writer.write(call.name), writer.write(call.type), writer.write(call.inputs), writer.write(call.outputs);
        writer.write(call.procedure != nullptr);
        if (call.procedure)
            recorded(call)->write(writer);
        else
            computation::write_program(writer, *model.programs[next++]);
    }
    writer.write(static_cast<uint32_t>(executable.constants.size()));
    for (auto const& [number, value] : executable.constants) writer.write(number), ArgumentWriter(writer)(value);
}

Compiled read_compiled(GraphReader& reader, LoadOptions const& options) { return Reading(reader, options).run(); }

Saved save(Compiled const& model) {
    GraphWriter writer;
    write(writer, model);
    auto tensors = std::move(writer.tensors());
    return {std::move(writer).finish(), std::move(tensors)};
}

Compiled load(std::span<std::byte const> graph, std::span<std::shared_ptr<mem_manager::Blob const> const> tensors,
              LoadOptions const& options) {
    GraphReader reader(graph, tensors);
    auto result = read_compiled(reader, options);
    if (!reader.at_end()) fail("more data than expected");
    return result;
}

}  // namespace refactor::frontend
