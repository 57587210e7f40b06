#include "computation/compile.h"
#include "lowering.h"
#include "mem_manager/blob.h"
#include "values.h"

#include <algorithm>
#include <set>

namespace refactor::frontend {

std::string describe(Node const& node, std::span<Tensor const* const> inputs, SymbolTable const& symbols) {
    // Names and expressions come from the model and may be of any length.
    constexpr size_t kLongest = 200;
    auto name = node.name.size() > kLongest ? node.name.substr(0, kLongest) + "…" : node.name;
    auto text = concat("node \"", name, "\" (", node.op->describe());
    for (size_t i = 0; i < inputs.size() && text.size() < 4 * kLongest; ++i)
        text += concat(i ? ", " : "; inputs ", inputs[i] ? to_string(*inputs[i], symbols) : "none");
    return text + ")";
}

namespace {

void check_declared(Node const& node, std::span<Tensor const* const> inputs, Tensor const& output,
                    SymbolTable const& symbols, Problems& problems) {
    if (!output.is_tensor() || output.declared == DataType::Undefined || output.dtype == DataType::Undefined) return;
    if (output.declared != output.dtype)
        problems.invalid.push_back(concat(describe(node, inputs, symbols), ": output \"", output.name,
                                          "\" is declared as ", name_of(output.declared), ", but is ",
                                          name_of(output.dtype)));
}

/// One node; why its outputs stay unknown, if they do.
Status infer_node(Node const& node, std::span<Tensor const* const> inputs, std::span<Tensor> outputs,
                  SymbolTable& symbols, Problems& problems, bool& is_procedure) {
    InferContext context(inputs, outputs, symbols);
    if (auto failure = node.op->infer(context)) {
        problems.add(describe(node, inputs, symbols), *failure);
        for (auto& output : outputs) output.reset();
        return failure;
    }
    static computation::CompileOptions const kOptions;
    is_procedure = context.is_procedure() || node.op->is_procedure({inputs, outputs, symbols, node.name, kOptions});
    for (auto& output : outputs) {
        check_declared(node, inputs, output, symbols, problems);
        materialise(output);
    }
    auto known = [](Tensor const& tensor) { return tensor.constant || tensor.literal; };
    if (!node.op->can_fold(inputs) || std::all_of(outputs.begin(), outputs.end(), known)) return std::nullopt;
    if (std::all_of(inputs.begin(), inputs.end(), [&](Tensor const* input) { return !input || known(*input); }))
        fold(node, inputs, outputs, symbols);
    return std::nullopt;
}

}  // namespace

void close_inputs(std::vector<Tensor>& inputs, SymbolTable& symbols) {
    std::set<SymbolId> bound;
    for (auto& input : inputs) {
        if (!input.constant) input.values.reset();
        for (auto const& size : input.shape.value_or(Shape{}))
            if (auto symbol = size.as_symbol()) bound.insert(*symbol);
    }
    for (auto& input : inputs) {
        if (!input.shape) continue;
        for (auto& size : *input.shape) {
            auto used = size.symbols();
            auto is_bound = [&](SymbolId symbol) { return bound.contains(symbol); };
            if (std::all_of(used.begin(), used.end(), is_bound)) continue;
            // Equal texts may be cut ones of different sizes.
            auto text = size.to_string(symbols);
            if (text.ends_with("…")) text += std::to_string(size.hash());
            size = DimExpr::symbol(symbols.intern(concat("(", text, ")")));
        }
    }
}

Inference infer(Graph const& graph, std::vector<Tensor> inputs, SymbolTable& symbols, Problems& problems,
                std::span<Tensor const> earlier) {
    auto const& topo = graph.topo;
    auto count = topo.node_count();
    Inference result{graph.tensors, std::vector<bool>(count), std::vector<bool>(count), {}, {}};
    auto& tensors = result.tensors;
    for (size_t i = 0; i < inputs.size(); ++i) tensors[topo.global_inputs()[i]] = std::move(inputs[i]);
    std::vector<Tensor const*> in;
    std::vector<Tensor> out;
    for (graph_topo::NodeIdx n = 0; n < count; ++n) {
        in.clear(), out.clear();
        bool ready = true;
        for (auto edge : topo.inputs(n)) {
            in.push_back(edge == graph_topo::kNoEdge ? nullptr : &tensors[edge]);
            ready = ready && (!in.back() || in.back()->is_complete());
        }
        result.deferred[n] = !ready;
        if (!ready) continue;
        auto outputs = topo.outputs(n);
        auto folded = [&](auto edge) {
            return edge < earlier.size() && (earlier[edge].constant || earlier[edge].literal);
        };
        if (!outputs.empty() && std::all_of(outputs.begin(), outputs.end(), folded)) {
            for (auto edge : outputs) tensors[edge] = earlier[edge];
            continue;
        }
        for (auto edge : outputs) out.push_back(std::move(tensors[edge]));
        bool is_procedure = false;
        auto failure = infer_node(graph.nodes[n], in, out, symbols, problems, is_procedure);
        result.procedures[n] = is_procedure;
        if (failure) {
            result.deferred[n] = true;
            if (auto* needs = std::get_if<NeedsValue>(&*failure)) {
                result.needed.push_back(topo.inputs(n)[needs->input]);
                result.reasons.push_back(concat(describe(graph.nodes[n], in, symbols), ": ", needs->reason));
            } else if (auto* unknown = std::get_if<UnknownVariable>(&*failure)) {
                result.reasons.push_back(
                    concat(describe(graph.nodes[n], in, symbols), ": the type of \"", unknown->name, "\" is unknown"));
            }
        }
        for (size_t i = 0; i < out.size(); ++i) tensors[outputs[i]] = std::move(out[i]);
    }
    return result;
}

}  // namespace refactor::frontend
