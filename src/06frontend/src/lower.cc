#include "kernel/ops/movement.h"
#include "lowering.h"
#include "mem_manager/blob.h"

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
    computation::Graph graph_;
    std::vector<EdgePtr> edges_;  ///< null: not made yet

    bool is_known(EdgeIdx edge) const { return tensors_[edge].constant || tensors_[edge].values; }

    std::vector<bool> needed_nodes() const {
        auto const& topo = source_.topo;
        std::vector<bool> needed(topo.node_count());
        auto require = [&](EdgeIdx edge) {
            if (edge == kNoEdge || is_known(edge)) return;
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
    Lowering(Graph const& source, std::span<Tensor const> tensors, SymbolTable const& symbols, Problems& problems)
        : source_(source),
          tensors_(tensors),
          symbols_(symbols),
          problems_(problems),
          edges_(source.topo.edge_count()) {}

    computation::Graph run() {
        for (auto edge : source_.topo.global_inputs()) {
            auto const& tensor = tensors_[edge];
            edges_[edge] = graph_.add_input({tensor.name, tensor.dtype, *tensor.shape, {}, nullptr});
        }
        auto needed = needed_nodes();
        for (NodeIdx n = 0; n < needed.size(); ++n)
            if (needed[n]) lower_node(n);
        for (auto edge : source_.topo.global_outputs())
            if (auto* made = edge_of(edge)) graph_.add_output(made);
        return std::move(graph_);
    }
};

}  // namespace

computation::Graph lower(Graph const& graph, std::span<Tensor const> tensors, SymbolTable const& symbols,
                         Problems& problems) {
    return Lowering(graph, tensors, symbols, problems).run();
}

}  // namespace refactor::frontend
