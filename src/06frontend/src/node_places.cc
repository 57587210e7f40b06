#include "node_places.h"

#include "computation/compile.h"

#include <algorithm>

namespace refactor::frontend {

namespace {

using graph_topo::EdgeIdx;
using graph_topo::kNoEdge;
using graph_topo::kNoNode;
using graph_topo::NodeIdx;

class Placer {
    Graph const& graph_;
    graph_topo::GraphTopo const& topo_;
    Inference const& inference_;
    SymbolTable const& symbols_;
    computation::CompileOptions const& options_;
    Problems& problems_;
    NodePlaces result_;

    Tensor const& tensor(EdgeIdx edge) const { return inference_.tensors[edge]; }

    /// The node whose results have a size that nothing before it has, for each symbol; or `kNoNode`.
    std::vector<NodeIdx> makers_of_symbols() const {
        std::vector<NodeIdx> makers(symbols_.size(), kNoNode);
        for (NodeIdx n = 0; n < topo_.node_count(); ++n) {
            if (!inference_.procedures[n]) continue;
            for (auto edge : topo_.outputs(n))
                for (auto const& size : tensor(edge).shape.value_or(Shape{}))
                    if (auto symbol = size.as_symbol(); symbol && makers[*symbol] == kNoNode) makers[*symbol] = n;
        }
        for (auto edge : inference_.sized)
            for (auto symbol : content_symbols(tensor(edge), symbols_)) makers[symbol] = topo_.producer(edge).node;
        for (auto edge : topo_.global_inputs())
            for (auto const& size : tensor(edge).shape.value_or(Shape{}))
                for (auto symbol : size.symbols()) makers[symbol] = kNoNode;
        return makers;
    }

    /// Whether the node runs as a procedure on the device that is compiled for, though not on the CPU.
    bool is_procedure_there(NodeIdx n) const {
        if (options_.device == "cpu") return false;
        std::vector<Tensor const*> inputs;
        std::vector<Tensor> outputs;
        for (auto edge : topo_.inputs(n)) inputs.push_back(edge == kNoEdge ? nullptr : &tensor(edge));
        for (auto edge : topo_.outputs(n)) outputs.push_back(tensor(edge));
        return graph_.nodes[n].op->is_procedure({inputs, outputs, symbols_, graph_.nodes[n].name, options_});
    }

    void make_procedure(NodeIdx n) {
        std::vector<Tensor const*> inputs;
        std::vector<Tensor> outputs;
        for (auto edge : topo_.inputs(n)) inputs.push_back(edge == kNoEdge ? nullptr : &tensor(edge));
        for (auto edge : topo_.outputs(n)) outputs.push_back(tensor(edge));
        auto const& node = graph_.nodes[n];
        result_.places[n] = Place::Procedure;
        auto answer = node.op->procedure({inputs, outputs, symbols_, node.name, options_});
        if (answer.ok())
            result_.procedures[n] = std::move(*answer);
        else
            problems_.add(describe(node, inputs, symbols_), answer.error());
    }

    void find_with_readers() {
        auto& with_readers = result_.with_readers;
        with_readers.resize(topo_.node_count());
        auto is_constant = [&](EdgeIdx edge) {
            if (edge == kNoEdge || tensor(edge).constant) return true;
            auto producer = topo_.producer(edge).node;
            return producer != kNoNode && with_readers[producer];
        };
        for (NodeIdx n = 0; n < topo_.node_count(); ++n) {
            auto inputs = topo_.inputs(n);
            with_readers[n] = result_.places[n] == Place::Program && graph_.nodes[n].op->goes_with_readers() &&
                              std::all_of(inputs.begin(), inputs.end(), is_constant);
        }
        for (auto edge : topo_.global_outputs())
            if (auto producer = topo_.producer(edge).node; producer != kNoNode) with_readers[producer] = false;
    }

public:
    Placer(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
           computation::CompileOptions const& options, Problems& problems)
        : graph_(graph),
          topo_(graph.topo),
          inference_(inference),
          symbols_(symbols),
          options_(options),
          problems_(problems) {
        result_.places.resize(topo_.node_count()), result_.procedures.resize(topo_.node_count());
    }

    NodePlaces run() {
        auto makers = makers_of_symbols();
        auto require_sizes = [&](std::vector<DimExpr> const& sizes) {
            for (auto const& size : sizes)
                for (auto symbol : size.symbols())
                    if (makers[symbol] != kNoNode) result_.places[makers[symbol]] = Place::Program;
        };
        auto require = [&](EdgeIdx edge) {
            if (edge == kNoEdge) return;
            // A size may be all that is wanted of what has it.
            if (tensor(edge).values) require_sizes(*tensor(edge).values);
            if (tensor(edge).is_known()) return;
            auto producer = topo_.producer(edge).node;
            if (producer != kNoNode) result_.places[producer] = Place::Program;
        };
        for (auto edge : topo_.global_outputs()) require(edge);
        for (auto n = static_cast<NodeIdx>(topo_.node_count()); n-- > 0;) {
            if (result_.places[n] == Place::Nowhere) continue;
            for (auto edge : topo_.inputs(n)) require(edge);
            if (inference_.deferred[n]) result_.places[n] = Place::Deferred, result_.has_deferred = true;
        }
        for (NodeIdx n = 0; n < topo_.node_count(); ++n)
            if (result_.places[n] == Place::Program && (inference_.procedures[n] || is_procedure_there(n)))
                make_procedure(n);
        find_with_readers();
        return std::move(result_);
    }
};

}  // namespace

NodePlaces place_nodes(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                       computation::CompileOptions const& options, Problems& problems) {
    return Placer(graph, inference, symbols, options, problems).run();
}

std::vector<SymbolId> content_symbols(Tensor const& tensor, SymbolTable const& symbols) {
    std::vector<SymbolId> found;
    auto count = element_count(*tensor.shape).constant().value_or(0);
    for (int64_t i = 0; i < count; ++i) found.push_back(*symbols.find(content_symbol(tensor, i)));
    return found;
}

}  // namespace refactor::frontend
