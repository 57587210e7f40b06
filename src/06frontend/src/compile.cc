#include "frontend/compile.h"

#include "common/error.h"
#include "frontend/model.h"
#include "mem_manager/blob.h"
#include "partition.h"
#include "values.h"

#include <algorithm>
#include <set>

namespace refactor::frontend {

namespace {

using graph_topo::EdgeIdx;
using graph_topo::kNoEdge;

std::set<SymbolId> symbols_of(computation::Model& model) {
    std::set<SymbolId> used;
    auto add = [&](DimExpr const& size) {
        for (auto symbol : size.symbols()) used.insert(symbol);
    };
    for (uint32_t id = 0; id < model.graph.edge_id_bound(); ++id)
        if (auto* edge = model.graph.edge(id); edge->alive())
            for (auto const& size : edge->value.shape) add(size);
    for (auto* node : model.graph.topological())
        for (auto const& param : node->value.op->params()) add(param);
    return used;
}

class Compiler {
    Graph const& graph_;
    Inference const& inference_;
    SymbolTable const& symbols_;
    computation::CompileOptions options_;
    Partition partition_;
    uint32_t values_ = 0;  ///< numbered so far
    Compiled result_;
    std::shared_ptr<runtime::Executable> executable_ = std::make_shared<runtime::Executable>();

    Tensor const& tensor(EdgeIdx edge) const { return inference_.tensors[edge]; }

    Tensor const& binder_type(EdgeIdx edge) const {
        auto carrier = partition_.carriers.find(edge);
        return carrier == partition_.carriers.end() ? tensor(edge) : carrier->second;
    }

    /// Inputs whose sizes are all that the program reads of them.
    std::vector<uint32_t> add_binders(Part const& part, computation::Model& model) const {
        auto missing = symbols_of(model);
        std::set<SymbolId> bound;
        auto bind = [&](Shape const& shape) {
            for (auto const& size : shape)
                if (auto symbol = size.as_symbol()) bound.insert(*symbol);
        };
        for (auto edge : part.inputs) bind(*tensor(edge).shape);
        std::vector<uint32_t> binders;
        std::vector<SymbolId> open(missing.begin(), missing.end());
        while (!open.empty()) {
            auto symbol = open.back();
            open.pop_back();
            auto edge = symbol < partition_.binders.size() ? partition_.binders[symbol] : kNoEdge;
            if (bound.contains(symbol) || edge == kNoEdge ||
                std::find(binders.begin(), binders.end(), edge) != binders.end())
                continue;
            binders.push_back(edge);
            auto const& type = binder_type(edge);
            model.graph.add_input({type.name, type.dtype, *type.shape, {}, nullptr});
            bind(*type.shape);
            // The other sizes of the binder may be sums of symbols that are bound by others yet.
            for (auto const& size : *type.shape)
                for (auto further : size.symbols()) open.push_back(further);
        }
        return binders;
    }

    /// A user keeps tensors and nodes of the whole model; each program is asked for its own.
    computation::CompileOptions options_for(computation::Model& model) const {
        auto options = options_;
        if (partition_.calls.size() == 1) return options;
        std::set<std::string> names;
        for (uint32_t id = 0; id < model.graph.edge_id_bound(); ++id)
            if (auto* edge = model.graph.edge(id); edge->alive()) names.insert(edge->value.name);
        std::erase_if(options.keep, [&](auto const& name) { return !names.contains(name); });
        std::set<std::string> nodes;
        for (auto* node : model.graph.topological()) nodes.insert(node->value.name);
        std::erase_if(options.keep_f32, [&](auto const& name) { return !nodes.contains(name); });
        return options;
    }

    void add_reports(std::vector<computation::PassReport> reports) {
        if (result_.passes.empty()) {
            result_.passes = std::move(reports);
            return;
        }
        for (size_t i = 0; i < reports.size(); ++i) {
            auto& total = result_.passes[i];
            total.changes += reports[i].changes, total.microseconds += reports[i].microseconds;
            total.graph += reports[i].graph;
            total.notes.insert(total.notes.end(), reports[i].notes.begin(), reports[i].notes.end());
        }
    }

    void add_program(PlannedCall& planned, computation::Model model) {
        auto& part = *planned.part;
        auto binders = add_binders(part, model);
        auto options = options_for(model);
        auto compiled = computation::compile(std::move(model), options);
        add_reports(std::move(compiled.passes));
        std::vector<uint32_t> inputs(part.inputs.begin(), part.inputs.end());
        inputs.insert(inputs.end(), binders.begin(), binders.end());
        if (compiled.parts.empty())
            add_call(std::move(compiled.program), std::move(inputs), std::move(planned.output_values));
        else
            add_parts(std::move(compiled), inputs, planned.output_values);
    }

    void add_call(std::shared_ptr<kernel::Program> program, std::vector<uint32_t> inputs,
                  std::vector<uint32_t> outputs) {
        result_.programs.push_back(program);
        executable_->calls.push_back({std::move(program), nullptr, {}, {}, std::move(inputs), std::move(outputs)});
    }

    /// The programs for different devices that one part of the model became.
    void add_parts(computation::Compiled compiled, std::vector<uint32_t> const& inputs,
                   std::vector<uint32_t> const& outputs) {
        auto known = inputs.size() + outputs.size();
        auto first = values_;
        values_ += compiled.values - static_cast<uint32_t>(known);
        auto numbers = [&](std::vector<uint32_t> const& locals) {
            std::vector<uint32_t> result;
            for (auto local : locals)
                result.push_back(local < inputs.size() ? inputs[local]
                                 : local < known       ? outputs[local - inputs.size()]
                                                       : first + local - static_cast<uint32_t>(known));
            return result;
        };
        for (auto& part : compiled.parts)
            add_call(std::move(part.program), numbers(part.inputs), numbers(part.outputs));
    }

    void add_constant(EdgeIdx edge) {
        auto& constants = executable_->constants;
        auto same = [&](auto const& pair) { return pair.first == edge; };
        if (std::none_of(constants.begin(), constants.end(), same))
            constants.emplace_back(edge, value_of(tensor(edge)));
    }

    void add_procedure(PlannedCall& planned) {
        runtime::Call call{nullptr, std::move(planned.procedure), std::move(planned.name), std::move(planned.type), {},
                           {}};
        for (auto edge : planned.operands) {
            call.inputs.push_back(edge == kNoEdge ? runtime::kNoValue : edge);
            if (edge != kNoEdge && (tensor(edge).constant || tensor(edge).literal)) add_constant(edge);
        }
        for (auto edge : planned.results) call.outputs.push_back(edge == kNoEdge ? runtime::kNoValue : edge);
        executable_->calls.push_back(std::move(call));
    }

    void refuse_other_devices() const {
        if (options_.device == "cpu" || options_.host_too) return;
        std::string text;
        for (auto const& call : partition_.calls)
            if (call.procedure && !call.procedure->steers() && call.procedure->device_kind() != options_.device)
                text += concat("\n  ", call.type, " node \"", call.name, "\": ", call.procedure->id(),
                               " runs on cpu, not on ", options_.device);
        if (!text.empty()) throw Unsupported("these node(s) run on the CPU only:" + text);
    }

    /// Types of the model's inputs and outputs; where everything is one program, its planner knows them best.
    void add_ports() {
        auto const& topo = graph_.topo;
        executable_->input_values.assign(topo.global_inputs().begin(), topo.global_inputs().end());
        executable_->output_values = partition_.output_values;
        executable_->values = values_;
        if (auto planner = executable_->single()) {
            executable_->inputs = planner->inputs(), executable_->outputs = planner->outputs();
            return;
        }
        for (auto edge : topo.global_inputs()) executable_->inputs.push_back(port_of(tensor(edge), symbols_));
        for (auto edge : topo.global_outputs()) {
            executable_->outputs.push_back(port_of(tensor(edge), symbols_));
            if (tensor(edge).literal) add_constant(edge);
        }
    }

public:
    Compiler(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
             computation::CompileOptions const& options)
        : graph_(graph), inference_(inference), symbols_(symbols), options_(options) {}

    Compiled run() {
        Problems problems;
        partition_ = partition(graph_, inference_, symbols_, options_, problems);
        values_ = partition_.values;
        problems.raise();
        refuse_other_devices();
        std::vector<computation::Model> models;
        for (auto const& call : partition_.calls)
            if (call.part) models.push_back(lower_part(graph_, inference_, symbols_, *call.part, problems));
        problems.raise();
        size_t next = 0;
        for (auto& call : partition_.calls) {
            if (call.part)
                add_program(call, std::move(models[next++]));
            else
                add_procedure(call);
        }
        executable_->device = options_.device;
        add_ports();
        result_.executable = std::move(executable_);
        return std::move(result_);
    }
};

}  // namespace

runtime::PortInfo port_of(Tensor const& tensor, SymbolTable const& symbols) {
    auto dtype = tensor.dtype == DataType::Undefined ? tensor.declared : tensor.dtype;
    runtime::PortInfo port{
        tensor.name, dtype, tensor.shape ? refactor::to_string(*tensor.shape, symbols) : "[?]", {}, {}};
    port.ranked = tensor.shape.has_value(), port.kind = tensor.kind;
    if (tensor.shape)
        for (auto const& size : *tensor.shape) {
            port.dims.push_back(size.constant().value_or(-1));
            port.symbols.push_back(size.to_string(symbols));
        }
    if (tensor.element) port.element = std::make_shared<runtime::PortInfo const>(port_of(*tensor.element, symbols));
    return port;
}

Compiled compile(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                 computation::CompileOptions const& options) {
    return Compiler(graph, inference, symbols, options).run();
}

computation::Model lower(Model const& model) {
    Problems problems;
    auto const& inference = model.inference();
    auto calls = partition(model.graph(), inference, model.symbols(), {}, problems).calls;
    problems.raise();
    if (calls.size() != 1 || !calls[0].part) throw Unsupported("the model is not a single program");
    auto lowered = lower_part(model.graph(), inference, model.symbols(), *calls[0].part, problems);
    problems.raise();
    return lowered;
}

Compiled compile(Model const& model, computation::CompileOptions const& options) {
    auto resolved = options;
    std::vector<std::string> unknown;
    resolved.keep_f32 = model.nodes_of(options.keep_f32, unknown);
    if (!unknown.empty()) {
        std::string text;
        for (auto const& name : unknown) text += concat(text.empty() ? "\"" : ", \"", name, "\"");
        throw InvalidInput("keep_f32: the model has no node named " + text);
    }
    return compile(model.graph(), model.inference(), model.symbols(), resolved);
}

}  // namespace refactor::frontend
