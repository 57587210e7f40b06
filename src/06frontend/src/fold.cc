#include "common/error.h"
#include "common/thread_pool.h"
#include "computation/compile.h"
#include "computation/evaluate.h"
#include "lowering.h"
#include "mem_manager/blob.h"
#include "runtime/procedure.h"
#include "values.h"

#include <algorithm>
#include <unordered_map>

namespace refactor::frontend {

namespace {

using computation::Constant;

/// The bytes of a tensor, if its size is known and it has elements of a fixed size.
std::optional<size_t> bytes_of(Tensor const& tensor) {
    auto count = tensor.shape ? constant_count(*tensor.shape) : std::nullopt;
    if (!count || !bits_of(tensor.dtype)) return std::nullopt;
    return storage_bytes(tensor.dtype, *count);
}

bool is_worthwhile(std::span<Tensor const* const> inputs, std::span<Tensor const> outputs) {
    size_t in = 0, out = 0;
    for (auto* input : inputs) {
        auto bytes = input ? bytes_of(*input) : 0;
        if (!bytes) return false;
        in += *bytes;
    }
    for (auto const& output : outputs) {
        auto bytes = bytes_of(output);
        if (!bytes) return false;
        out += *bytes;
    }
    return out <= std::max(in, kFoldLimit);
}

std::optional<std::vector<Constant>> evaluate_node(computation::NodePtr node,
                                                   std::unordered_map<computation::EdgePtr, Constant> const& known) {
    auto constant_of = [&](computation::EdgePtr edge) -> Constant {
        if (!edge) return {};
        if (auto it = known.find(edge); it != known.end()) return it->second;
        return {edge->value.dtype, constant_dims(edge->value.shape), edge->value.constant};
    };
    std::vector<Constant> inputs, outputs;
    std::vector<int64_t> params;
    for (auto* edge : node->inputs()) inputs.push_back(constant_of(edge));
    for (auto* edge : node->outputs()) {
        if (!constant_count(edge->value.shape)) return std::nullopt;
        outputs.push_back({edge->value.dtype, constant_dims(edge->value.shape), nullptr});
    }
    for (auto const& param : node->value.op->params()) {
        auto value = param.constant();
        if (!value) return std::nullopt;
        params.push_back(*value);
    }
    auto result = computation::evaluate(node->value.op, inputs, std::move(outputs), params);
    if (!result) return std::nullopt;
    return std::move(*result);
}

/// Calls the procedure of a node whose inputs are constants.
void fold_procedure(runtime::Procedure const& procedure, std::span<Tensor const* const> inputs,
                    std::span<Tensor> outputs) {
    std::vector<runtime::Value> values, results(outputs.size());
    std::vector<runtime::Value const*> arguments;
    values.reserve(inputs.size());
    for (auto* input : inputs) {
        if (input) values.push_back(value_of(*input));
        arguments.push_back(input ? &values.back() : nullptr);
    }
    static auto const kPool = std::make_shared<ThreadPool>(1);
    static std::string const kAllocator = "default";
    try {
        auto state = procedure.make_state();
        procedure.call(arguments, results, {kPool, {}, state.get(), kAllocator});
    } catch (Error const&) {
        return;  // the run reports it
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
        auto& output = outputs[i];
        auto& result = results[i];
        // A tensor in an optional is a literal: its type says no shape.
        bool plain = output.is_tensor() && result.kind == ValueKind::Tensor;
        if (plain) output.shape.emplace(result.dims.begin(), result.dims.end());
        if (plain && result.blob)
            output.constant = std::move(result.blob);
        else
            output.literal = std::make_shared<runtime::Value const>(std::move(result));
    }
}

}  // namespace

runtime::Value value_of(Tensor const& constant) {
    if (constant.literal) return *constant.literal;
    return {constant.dtype, constant_dims(*constant.shape),
            std::const_pointer_cast<mem_manager::Blob>(constant.constant)};
}

void fold(Node const& node, std::span<Tensor const* const> inputs, std::span<Tensor> outputs,
          SymbolTable const& symbols) {
    static computation::CompileOptions const kOptions;
    ProcedureContext context{inputs, outputs, symbols, node.name, kOptions};
    if (node.op->is_procedure(context)) {
        if (auto procedure = node.op->procedure(context); procedure.ok()) fold_procedure(**procedure, inputs, outputs);
        return;
    }
    if (!is_worthwhile(inputs, outputs)) return;
    computation::Graph graph;
    std::vector<computation::EdgePtr> edges;
    for (auto* input : inputs)
        edges.push_back(!input ? nullptr
                               : graph.add_source({input->name, input->dtype, *input->shape, {}, input->constant}));
    LowerContext lowering(graph, symbols, node.name, inputs, edges, outputs);
    if (node.op->lower(lowering)) return;
    std::unordered_map<computation::EdgePtr, Constant> known;
    for (auto* step : graph.topological()) {
        auto results = evaluate_node(step, known);
        if (!results) return;
        for (size_t i = 0; i < results->size(); ++i) known[step->output(i)] = std::move((*results)[i]);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
        auto* edge = lowering.results()[i];
        if (!edge) continue;
        auto it = known.find(edge);
        outputs[i].constant = it == known.end() ? edge->value.constant : it->second.blob;
    }
}

}  // namespace refactor::frontend
