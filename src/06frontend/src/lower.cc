#include "frontend/sub_graph.h"
#include "kernel/ops/movement.h"
#include "lowering.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::frontend {

namespace {

using computation::EdgePtr;
using graph_topo::EdgeIdx;
using graph_topo::kNoEdge;
using graph_topo::kNoNode;
using graph_topo::NodeIdx;

class Lowering {
    Graph const& source_;
    std::span<Tensor const> tensors_;
    SymbolTable const& symbols_;
    Problems& problems_;
    computation::Graph& graph_;
    std::vector<EdgePtr> edges_;  ///< null: not made yet

    std::vector<bool> needed_nodes() const {
        auto const& topo = source_.topo;
        std::vector<bool> needed(topo.node_count());
        auto require = [&](EdgeIdx edge) {
            if (edge == kNoEdge || tensors_[edge].is_known()) return;
            if (auto producer = topo.producer(edge).node; producer != kNoNode) needed[producer] = true;
        };
        for (auto edge : topo.global_outputs()) require(edge);
        for (auto n = static_cast<NodeIdx>(topo.node_count()); n-- > 0;)
            if (needed[n])
                for (auto edge : topo.inputs(n)) require(edge);
        return needed;
    }

    /// Writes the sizes that a tensor carries to memory.
    EdgePtr shape_values(Tensor const& tensor) {
        std::vector<Tensor> outputs{tensor};
        LowerContext context(graph_, symbols_, tensor.name, {}, {}, outputs);
        auto count = static_cast<int64_t>(tensor.values->size());
        auto* edge = context.emit(computation::make_operator(kernel::ShapeValuesInfo{}, *tensor.values), {},
                                  DataType::I64, {DimExpr(count)});
        edge = context.cast(context.reshape(edge, *tensor.shape), tensor.dtype);
        edge->value.name = tensor.name;
        return edge;
    }

    EdgePtr edge_of(EdgeIdx index) {
        if (index == kNoEdge) return nullptr;
        auto& edge = edges_[index];
        if (edge) return edge;
        auto const& tensor = tensors_[index];
        if (tensor.constant)
            edge = graph_.add_source({tensor.name, tensor.dtype, *tensor.shape, {}, tensor.constant});
        else if (tensor.values)
            edge = shape_values(tensor);
        return edge;
    }

    void lower_node(NodeIdx n) {
        auto const& topo = source_.topo;
        std::vector<EdgePtr> edges;
        std::vector<Tensor const*> inputs;
        std::vector<Tensor> outputs;
        for (auto edge : topo.inputs(n)) {
            inputs.push_back(edge == kNoEdge ? nullptr : &tensors_[edge]);
            edges.push_back(edge_of(edge));
            // Its producer has failed; that has been reported.
            if (edge != kNoEdge && !edges.back()) return;
        }
        for (auto edge : topo.outputs(n)) outputs.push_back(tensors_[edge]);
        auto const& node = source_.nodes[n];
        LowerContext context(graph_, symbols_, node.name, inputs, edges, outputs);
        if (auto failure = node.op->lower(context)) {
            problems_.add(describe(node, inputs, symbols_), *failure);
            return;
        }
        for (size_t i = 0; i < outputs.size(); ++i) {
            auto* edge = context.results()[i];
            if (!edge) continue;
            edges_[topo.outputs(n)[i]] = edge;
            bool is_new = edge->producer() && edge->value.name.starts_with(outputs[0].name + "/");
            if (is_new && !outputs[i].name.empty()) edge->value.name = outputs[i].name;
        }
    }

public:
    Lowering(computation::Graph& target, Graph const& source, std::span<Tensor const> tensors,
             SymbolTable const& symbols, Problems& problems)
        : source_(source),
          tensors_(tensors),
          symbols_(symbols),
          problems_(problems),
          graph_(target),
          edges_(source.topo.edge_count()) {}

    void set_edge(EdgeIdx index, EdgePtr edge) { edges_[index] = edge; }

    std::vector<EdgePtr> run(std::vector<bool> const& nodes, std::span<EdgeIdx const> outputs) {
        for (NodeIdx n = 0; n < nodes.size(); ++n)
            if (nodes[n]) lower_node(n);
        std::vector<EdgePtr> edges;
        for (auto edge : outputs) edges.push_back(edge_of(edge));
        return edges;
    }

    /// `inputs` by global input; null: made when needed.
    std::vector<EdgePtr> run(std::span<EdgePtr const> inputs) {
        auto const& topo = source_.topo;
        for (size_t i = 0; i < inputs.size(); ++i) edges_[topo.global_inputs()[i]] = inputs[i];
        return run(needed_nodes(), topo.global_outputs());
    }
};

void add_conditions(computation::Model& model, std::vector<kernel::SizeCondition> const& conditions) {
    model.conditions.insert(model.conditions.end(), conditions.begin(), conditions.end());
}

}  // namespace

computation::Model lower_part(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                              Part const& part, Problems& problems) {
    computation::Model model;
    auto const& tensors = inference.tensors;
    Lowering lowering(model.graph, graph, tensors, symbols, problems);
    for (auto index : part.inputs) {
        auto const& tensor = tensors[index];
        auto* edge = model.graph.add_input({tensor.name, tensor.dtype, *tensor.shape, {}, nullptr});
        if (!tensor.is_known()) lowering.set_edge(index, edge);
    }
    for (auto* edge : lowering.run(part.nodes, part.outputs))
        if (edge) model.graph.add_output(edge);
    // Sizes written to memory for operators that turned out to need them as numbers only.
    model.graph.erase_dead();
    model.symbols = symbols;
    auto carries_sizes = [&](NodeIdx n) {
        auto outputs = graph.topo.outputs(n);
        return std::any_of(outputs.begin(), outputs.end(),
                           [&](EdgeIdx edge) { return tensors[edge].values && !tensors[edge].constant; });
    };
    for (NodeIdx n = 0; n < part.nodes.size(); ++n)
        if (part.nodes[n] || (part.known[n] && carries_sizes(n))) add_conditions(model, inference.conditions[n]);
    for (auto index : part.outputs) model.output_names.push_back(tensors[index].name);
    return model;
}

computation::Model lower_sub_graph(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                                   std::vector<uint32_t>& inputs, Problems& problems) {
    computation::Model model;
    auto const& tensors = inference.tensors;
    std::vector<EdgePtr> edges;
    auto global_inputs = graph.topo.global_inputs();
    for (uint32_t i = 0; i < global_inputs.size(); ++i) {
        auto const& tensor = tensors[global_inputs[i]];
        auto edge = computation::Edge{tensor.name, tensor.dtype, *tensor.shape, {}, nullptr};
        edges.push_back(tensor.constant ? nullptr : model.graph.add_input(std::move(edge)));
        if (!tensor.constant) inputs.push_back(i);
    }
    for (auto* edge : Lowering(model.graph, graph, tensors, symbols, problems).run(edges))
        if (edge) model.graph.add_output(edge);
    model.graph.erase_dead();
    model.symbols = symbols;
    for (auto const& conditions : inference.conditions) add_conditions(model, conditions);
    for (auto edge : graph.topo.global_outputs()) model.output_names.push_back(tensors[edge].name);
    return model;
}

std::vector<EdgePtr> inline_sub_graph(computation::Graph& target, Graph const& graph, std::span<Tensor const> tensors,
                                      SymbolTable const& symbols, std::span<EdgePtr const> edges, Problems& problems) {
    return Lowering(target, graph, tensors, symbols, problems).run(edges);
}

}  // namespace refactor::frontend
