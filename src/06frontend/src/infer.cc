#include "lowering.h"
#include "mem_manager/blob.h"
#include "values.h"

#include <algorithm>

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

bool is_complete(Tensor const& tensor) { return tensor.dtype != DataType::Undefined && tensor.shape; }

void check_declared(Node const& node, std::span<Tensor const* const> inputs, Tensor const& output,
                    SymbolTable const& symbols, Problems& problems) {
    if (output.declared == DataType::Undefined || output.dtype == DataType::Undefined) return;
    if (output.declared != output.dtype)
        problems.invalid.push_back(concat(describe(node, inputs, symbols), ": output \"", output.name,
                                          "\" is declared as ", name_of(output.declared), ", but is ",
                                          name_of(output.dtype)));
}

/// One node; false if its outputs stay unknown.
void infer_node(Node const& node, std::span<Tensor const* const> inputs, std::span<Tensor> outputs,
                SymbolTable& symbols, Problems& problems) {
    InferContext context(inputs, outputs, symbols);
    if (auto failure = node.op->infer(context)) {
        problems.add(describe(node, inputs, symbols), *failure);
        for (auto& output : outputs)
            output.dtype = DataType::Undefined, output.shape.reset(), output.values.reset(), output.constant.reset();
        return;
    }
    for (auto& output : outputs) {
        check_declared(node, inputs, output, symbols, problems);
        materialise(output);
    }
    auto known = [](Tensor const& tensor) { return tensor.constant != nullptr; };
    if (!node.op->can_fold() || std::all_of(outputs.begin(), outputs.end(), known)) return;
    if (std::all_of(inputs.begin(), inputs.end(), [](Tensor const* input) { return !input || input->constant; }))
        fold(node, inputs, outputs, symbols);
}

}  // namespace

std::vector<Tensor> infer(Graph const& graph, std::vector<Tensor> inputs, SymbolTable& symbols, Problems& problems,
                          std::span<Tensor const> earlier) {
    auto const& topo = graph.topo;
    auto tensors = graph.tensors;
    for (size_t i = 0; i < inputs.size(); ++i) tensors[topo.global_inputs()[i]] = std::move(inputs[i]);
    std::vector<Tensor const*> in;
    std::vector<Tensor> out;
    for (graph_topo::NodeIdx n = 0; n < topo.node_count(); ++n) {
        in.clear(), out.clear();
        bool ready = true;
        for (auto edge : topo.inputs(n)) {
            in.push_back(edge == graph_topo::kNoEdge ? nullptr : &tensors[edge]);
            ready = ready && (!in.back() || is_complete(*in.back()));
        }
        if (!ready) continue;
        auto outputs = topo.outputs(n);
        auto folded = [&](auto edge) { return edge < earlier.size() && earlier[edge].constant; };
        if (!outputs.empty() && std::all_of(outputs.begin(), outputs.end(), folded)) {
            for (auto edge : outputs) tensors[edge] = earlier[edge];
            continue;
        }
        for (auto edge : outputs) out.push_back(std::move(tensors[edge]));
        infer_node(graph.nodes[n], in, out, symbols, problems);
        for (size_t i = 0; i < out.size(); ++i) tensors[outputs[i]] = std::move(out[i]);
    }
    return tensors;
}

}  // namespace refactor::frontend
