#include "partition.h"

#include "common/error.h"
#include "computation/compile.h"
#include "deferred.h"
#include "frontend/recorded.h"
#include "node_places.h"

#include <algorithm>

namespace refactor::frontend {

namespace {

using graph_topo::EdgeIdx;
using graph_topo::kNoEdge;
using graph_topo::kNoNode;
using graph_topo::NodeIdx;

/// Nodes get levels: a procedure's results belong to the level after its own, everything else to the highest level of
/// what it reads. The nodes of one level that are no procedures form one program. Weights that are dequantised belong
/// to every program that reads them, where passes and packing see constants.
class Partitioner {
    Graph const& graph_;
    graph_topo::GraphTopo const& topo_;
    Inference const& inference_;
    SymbolTable const& symbols_;
    computation::CompileOptions const& options_;

    std::vector<Place> places_;
    std::vector<ProcedurePtr> procedures_;
    bool deferred_;
    std::vector<bool> with_readers_;  ///< nodes that belong to every program that reads them
    std::vector<uint32_t> node_levels_, edge_levels_, symbol_levels_;
    uint32_t levels_ = 1;
    Partition result_;
    std::vector<std::pair<uint32_t, PlannedCall>> readers_;  ///< of the content of `sized_`, with their levels
    std::vector<EdgeIdx> sized_;                             ///< edges whose content is needed as sizes

    Tensor const& tensor(EdgeIdx edge) const { return inference_.tensors[edge]; }

    void bind_symbols(EdgeIdx edge, uint32_t level) {
        if (!tensor(edge).is_tensor() || !tensor(edge).shape) return;
        for (auto const& size : *tensor(edge).shape)
            if (auto symbol = size.as_symbol(); symbol && result_.binders[*symbol] == kNoEdge)
                result_.binders[*symbol] = edge, symbol_levels_[*symbol] = level;
    }

    uint32_t level_of(DimExpr const& size) const {
        uint32_t level = 0;
        for (auto symbol : size.symbols()) level = std::max(level, symbol_levels_[symbol]);
        return level;
    }
    /// The first level whose programs can know the sizes (and values) of a tensor.
    uint32_t level_of_sizes(EdgeIdx edge) const {
        uint32_t level = 0;
        if (tensor(edge).shape)
            for (auto const& size : *tensor(edge).shape) level = std::max(level, level_of(size));
        if (tensor(edge).values)
            for (auto const& value : *tensor(edge).values) level = std::max(level, level_of(value));
        return level;
    }

    /// Of the edges whose content became symbols, those whose symbols something uses.
    void find_sized() {
        std::vector<bool> used(symbols_.size());
        auto mark = [&](std::vector<DimExpr> const& sizes) {
            for (auto const& size : sizes)
                for (auto symbol : size.symbols()) used[symbol] = true;
        };
        for (EdgeIdx edge = 0; edge < topo_.edge_count(); ++edge) {
            auto producer = topo_.producer(edge).node;
            if (producer != kNoNode && places_[producer] == Place::Nowhere && !tensor(edge).values) continue;
            if (tensor(edge).shape) mark(*tensor(edge).shape);
            if (tensor(edge).values) mark(*tensor(edge).values);
        }
        for (auto edge : inference_.sized) {
            auto symbols = content_symbols(tensor(edge), symbols_);
            if (std::any_of(symbols.begin(), symbols.end(), [&](auto symbol) { return used[symbol]; }))
                sized_.push_back(edge);
        }
    }
    bool is_sized(EdgeIdx edge) const { return std::find(sized_.begin(), sized_.end(), edge) != sized_.end(); }

    /// The content of `edge`, which is known after `level`, binds symbols from then on.
    void bind_content(EdgeIdx edge, uint32_t level) {
        if (!is_sized(edge)) return;
        auto number = result_.values++;
        auto& carrier = result_.carriers[number];
        carrier.name = tensor(edge).name, carrier.dtype = DataType::U8;
        carrier.shape.emplace(1, DimExpr(0));
        for (auto symbol : content_symbols(tensor(edge), symbols_)) {
            carrier.shape->push_back(DimExpr::symbol(symbol));
            if (result_.binders[symbol] != kNoEdge) continue;
            result_.binders[symbol] = number, symbol_levels_[symbol] = level + 1;
        }
        PlannedCall call;
        call.procedure = record<kernel::make_content_sizes>(carrier.name);
        call.name = carrier.name, call.type = "ContentSizes";
        call.operands = {edge}, call.results = {number};
        readers_.emplace_back(level, std::move(call));
        levels_ = std::max(levels_, level + 2);
    }

    void find_levels() {
        for (auto edge : topo_.global_inputs()) bind_symbols(edge, 0), bind_content(edge, 0);
        for (NodeIdx n = 0; n < topo_.node_count(); ++n) {
            if (places_[n] == Place::Nowhere || places_[n] == Place::Deferred) continue;
            auto& level = node_levels_[n];
            for (auto edge : topo_.inputs(n))
                if (edge != kNoEdge)
                    level = std::max({level, tensor(edge).is_known() ? 0 : edge_levels_[edge], level_of_sizes(edge)});
            bool is_procedure = places_[n] == Place::Procedure;
            for (auto edge : topo_.outputs(n)) {
                if (is_procedure)
                    bind_symbols(edge, level + 1);
                else
                    level = std::max(level, level_of_sizes(edge));
            }
            for (auto edge : topo_.outputs(n)) {
                edge_levels_[edge] = level + is_procedure;
                bind_content(edge, edge_levels_[edge]);
            }
            levels_ = std::max(levels_, level + is_procedure + 1);
        }
    }

    bool goes_with_readers(EdgeIdx edge) const {
        auto producer = topo_.producer(edge).node;
        return producer != kNoNode && with_readers_[producer] && !tensor(edge).is_known();
    }
    /// Adds the nodes that go with `nodes`.
    void add_with_readers(std::vector<bool>& nodes) const {
        for (auto n = static_cast<NodeIdx>(topo_.node_count()); n-- > 0;) {
            if (!nodes[n]) continue;
            for (auto edge : topo_.inputs(n))
                if (edge != kNoEdge && goes_with_readers(edge)) nodes[topo_.producer(edge).node] = true;
        }
    }

    bool is_made_by_program(EdgeIdx edge) const {
        auto producer = topo_.producer(edge).node;
        return producer != kNoNode && places_[producer] == Place::Program;
    }

    /// Outputs of the model that the program of `level` writes: what it computes, copies of tensors that are known or
    /// inputs.
    void add_model_outputs(uint32_t level, PlannedCall& call) {
        auto outputs = topo_.global_outputs();
        for (size_t i = 0; i < outputs.size(); ++i) {
            auto edge = outputs[i];
            auto producer = topo_.producer(edge).node;
            auto const& t = tensor(edge);
            bool computed = producer != kNoNode && !t.is_known();
            if (computed && places_[producer] != Place::Program) continue;
            if (!t.is_tensor() || t.literal || t.dtype == DataType::String || !t.is_complete()) continue;
            auto own = computed ? node_levels_[producer] : level_of_sizes(edge);
            if (own != level) continue;
            auto& value = result_.output_values[i];
            value = computed && value == edge &&
                            std::find(call.output_values.begin(), call.output_values.end(), edge) ==
                                call.output_values.end()
                        ? edge
                        : result_.values++;
            call.part->outputs.push_back(edge), call.output_values.push_back(value);
        }
    }

    void add_crossing_outputs(uint32_t level, PlannedCall& call) {
        auto add = [&](EdgeIdx edge) {
            if (std::find(call.output_values.begin(), call.output_values.end(), edge) != call.output_values.end())
                return;
            call.part->outputs.push_back(edge), call.output_values.push_back(edge);
        };
        for (EdgeIdx edge = 0; edge < topo_.edge_count(); ++edge) {
            auto const& t = tensor(edge);
            bool symbolic = t.values && !t.constant && level_of_sizes(edge) == level;
            bool computed = !t.is_known() && is_made_by_program(edge) && edge_levels_[edge] == level;
            if (!symbolic && !computed) continue;
            if (computed && is_sized(edge)) add(edge);
            for (auto const& consumer : topo_.consumers(edge)) {
                auto place = places_[consumer.node];
                if (goes_with_readers(edge) && place != Place::Procedure) continue;
                bool later = place == Place::Program && computed && node_levels_[consumer.node] > level;
                if (later || place == Place::Procedure || place == Place::Deferred) {
                    add(edge);
                    break;
                }
            }
        }
    }

    void add_program(uint32_t level, bool only) {
        PlannedCall call;
        call.part.emplace();
        auto& part = *call.part;
        part.nodes.resize(topo_.node_count()), part.known.resize(topo_.node_count());
        std::vector<bool> used(topo_.edge_count());
        for (NodeIdx n = 0; n < topo_.node_count(); ++n) {
            part.known[n] = places_[n] == Place::Nowhere;
            part.nodes[n] = places_[n] == Place::Program && node_levels_[n] == level && !with_readers_[n];
            if (!part.nodes[n]) continue;
            for (auto edge : topo_.inputs(n))
                if (edge != kNoEdge && !tensor(edge).is_known() && !goes_with_readers(edge) &&
                    !(is_made_by_program(edge) && edge_levels_[edge] == level))
                    used[edge] = true;
        }
        add_model_outputs(level, call);
        add_crossing_outputs(level, call);
        for (auto edge : part.outputs)
            if (goes_with_readers(edge)) part.nodes[topo_.producer(edge).node] = true;
        add_with_readers(part.nodes);
        if (part.outputs.empty()) return;
        for (auto edge : part.outputs)
            if (!tensor(edge).is_known() && topo_.producer(edge).node == kNoNode) used[edge] = true;
        if (only) {
            part.inputs.assign(topo_.global_inputs().begin(), topo_.global_inputs().end());
        } else {
            for (EdgeIdx edge = 0; edge < topo_.edge_count(); ++edge)
                if (used[edge]) part.inputs.push_back(edge);
        }
        result_.calls.push_back(std::move(call));
    }

    void add_procedures(uint32_t level) {
        for (NodeIdx n = 0; n < topo_.node_count(); ++n) {
            if (places_[n] != Place::Procedure || node_levels_[n] != level) continue;
            PlannedCall call;
            call.procedure = std::move(procedures_[n]);
            call.name = graph_.nodes[n].name, call.type = graph_.nodes[n].op->type();
            call.operands.assign(topo_.inputs(n).begin(), topo_.inputs(n).end());
            call.results.assign(topo_.outputs(n).begin(), topo_.outputs(n).end());
            result_.calls.push_back(std::move(call));
        }
    }

    void add_readers(uint32_t level) {
        for (auto& [own, call] : readers_)
            if (own == level) result_.calls.push_back(std::move(call));
    }

    void add_deferred() {
        std::vector<bool> nodes(topo_.node_count());
        for (NodeIdx n = 0; n < topo_.node_count(); ++n) nodes[n] = places_[n] == Place::Deferred;
        add_with_readers(nodes);
        PlannedCall call;
        call.procedure = make_deferred(graph_, inference_, nodes, symbols_, options_, call.operands, call.results);
        auto first = std::find(nodes.begin(), nodes.end(), true) - nodes.begin();
        call.name = graph_.nodes[static_cast<size_t>(first)].name, call.type = "Deferred";
        result_.calls.push_back(std::move(call));
    }

public:
    Partitioner(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                computation::CompileOptions const& options, NodePlaces places)
        : graph_(graph),
          topo_(graph.topo),
          inference_(inference),
          symbols_(symbols),
          options_(options),
          places_(std::move(places.places)),
          procedures_(std::move(places.procedures)),
          deferred_(places.has_deferred),
          with_readers_(std::move(places.with_readers)),
          node_levels_(topo_.node_count()),
          edge_levels_(topo_.edge_count()),
          symbol_levels_(symbols.size()) {}

    Partition run() {
        result_.values = static_cast<uint32_t>(topo_.edge_count());
        result_.binders.assign(symbols_.size(), kNoEdge);
        result_.output_values.assign(topo_.global_outputs().begin(), topo_.global_outputs().end());
        find_sized();
        find_levels();
        bool only =
            levels_ == 1 && !deferred_ && readers_.empty() &&
            std::none_of(places_.begin(), places_.end(), [](Place p) { return p == Place::Procedure; }) &&
            std::all_of(topo_.global_inputs().begin(), topo_.global_inputs().end(), [&](EdgeIdx edge) {
                return tensor(edge).is_complete() && tensor(edge).is_tensor() && tensor(edge).dtype != DataType::String;
            });
        for (uint32_t level = 0; level < levels_; ++level) {
            add_program(level, only);
            add_readers(level);
            add_procedures(level);
        }
        if (deferred_) add_deferred();
        return std::move(result_);
    }
};

}  // namespace

Partition partition(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                    computation::CompileOptions const& options, Problems& problems) {
    auto places = place_nodes(graph, inference, symbols, options, problems);
    return Partitioner(graph, inference, symbols, options, std::move(places)).run();
}

}  // namespace refactor::frontend
