#include "cut_by_device.h"

#include "ask_kernels.h"
#include "common/error.h"
#include "graph_topo/partition.h"

#include <algorithm>
#include <set>

namespace refactor::computation {

namespace {

using graph_topo::EdgeIdx;
using graph_topo::kNoEdge;
using graph_topo::kNoNode;
using graph_topo::NodeIdx;

constexpr uint32_t kDevice = 0, kHost = 1;

/// Where each node can run, in topological order. A reshape has no kernel: it stays with what it renames.
std::vector<uint32_t> colours_of(Model const& model, PassContext const& context, mem_manager::Device& place,
                                 PassReport& report) {
    std::vector<uint32_t> colours, by_id(model.graph.node_id_bound(), kDevice);
    for (auto* node : model.graph.topological()) {
        auto colour = kDevice;
        if (node->value.op->is_alias()) {
            auto* producer = node->input(0)->producer();
            colour = producer ? by_id[producer->id()] : kDevice;
        } else if (auto answer = ask_kernels(node, context, context.options.device, &place); answer.kernels.empty()) {
            colour = kHost;
            auto note = std::string(node->value.op->type()) + " node \"" + node->value.name + "\" runs on the host";
            for (auto const& rejection : answer.rejections) note += "; " + rejection.reason;
            report.notes.push_back(std::move(note));
        }
        by_id[node->id()] = colour;
        colours.push_back(colour);
    }
    return colours;
}

class Cutter {
    graph_topo::Graph<Node, Edge> graph_;
    Model const& model_;
    graph_topo::Partitioning parts_;
    std::vector<uint32_t> numbers_;  ///< of values, by edge
    PassReport& report_;

    graph_topo::GraphTopo const& topo() const { return graph_.topo; }
    uint32_t part_of(EdgeIdx edge) const {
        auto node = topo().producer(edge).node;
        return node == kNoNode ? UINT32_MAX : parts_.part_of[node];
    }
    bool is_constant(EdgeIdx edge) const { return graph_.edges[edge].constant != nullptr; }

    uint32_t number_values() {
        numbers_.assign(topo().edge_count(), UINT32_MAX);
        uint32_t next = 0;
        for (auto edge : topo().global_inputs()) numbers_[edge] = next++;
        for (auto edge : topo().global_outputs()) numbers_[edge] = next++;
        for (EdgeIdx edge = 0; edge < topo().edge_count(); ++edge)
            for (auto const& use : topo().consumers(edge))
                if (numbers_[edge] == UINT32_MAX && !is_constant(edge) && parts_.part_of[use.node] != part_of(edge))
                    numbers_[edge] = next++;
        return next;
    }

    static void add_symbols(std::set<SymbolId>& symbols, std::span<DimExpr const> sizes) {
        for (auto const& size : sizes)
            for (auto symbol : size.symbols()) symbols.insert(symbol);
    }

    /// Inputs of the model that bind symbols of a part which none of the part's inputs has as a size.
    std::vector<EdgeIdx> binders(std::set<SymbolId> open, std::vector<EdgeIdx> const& inputs) const {
        auto bind = [&](EdgeIdx edge) {
            bool useful = false;
            for (auto const& size : graph_.edges[edge].shape)
                if (auto symbol = size.as_symbol()) useful |= open.erase(*symbol) > 0;
            return useful;
        };
        for (auto edge : inputs) bind(edge);
        std::vector<EdgeIdx> found;
        for (auto edge : topo().global_inputs())
            if (!open.empty() && bind(edge)) found.push_back(edge);
        return found;
    }

    Piece piece(uint32_t part) const {
        Piece result;
        result.on_host = parts_.colours[part] == kHost;
        std::set<EdgeIdx> used, made;
        std::set<SymbolId> symbols;
        for (auto n : parts_.parts[part]) {
            for (auto edge : topo().inputs(n))
                if (edge != kNoEdge) used.insert(edge);
            for (auto edge : topo().outputs(n)) made.insert(edge);
            add_symbols(symbols, graph_.nodes[n].op->params());
        }
        for (auto edge : used) add_symbols(symbols, graph_.edges[edge].shape);
        for (auto edge : made) add_symbols(symbols, graph_.edges[edge].shape);
        std::vector<EdgeIdx> inputs;
        for (auto edge : used)
            if (!made.contains(edge) && !is_constant(edge)) inputs.push_back(edge);
        for (auto edge : binders(std::move(symbols), inputs)) inputs.push_back(edge);

        auto& graph = result.model.graph;
        result.model.symbols = model_.symbols, result.model.conditions = model_.conditions;
        std::vector<EdgePtr> edges(topo().edge_count());
        for (auto edge : inputs)
            edges[edge] = graph.add_input(graph_.edges[edge]), result.inputs.push_back(numbers_[edge]);
        for (auto edge : used)
            if (!edges[edge] && !made.contains(edge)) edges[edge] = graph.add_source(graph_.edges[edge]);
        for (auto n : parts_.parts[part]) {
            std::vector<EdgePtr> operands;
            for (auto edge : topo().inputs(n)) operands.push_back(edge == kNoEdge ? nullptr : edges[edge]);
            auto outputs = topo().outputs(n);
            auto* node = graph.insert(graph_.nodes[n], operands, outputs.size());
            for (size_t i = 0; i < outputs.size(); ++i)
                edges[outputs[i]] = node->output(i), node->output(i)->value = graph_.edges[outputs[i]];
        }
        for (auto edge : made) {
            if (numbers_[edge] == UINT32_MAX) continue;
            graph.add_output(edges[edge]);
            result.model.output_names.push_back(graph_.edges[edge].name);
            result.outputs.push_back(numbers_[edge]);
        }
        return result;
    }

    void tell_copies() const {
        for (EdgeIdx edge = 0; edge < topo().edge_count(); ++edge) {
            if (numbers_[edge] == UINT32_MAX || part_of(edge) == UINT32_MAX) continue;
            auto from = parts_.colours[part_of(edge)];
            auto uses = topo().consumers(edge);
            if (std::none_of(uses.begin(), uses.end(),
                             [&](auto const& use) { return parts_.colours[parts_.part_of[use.node]] != from; }))
                continue;
            auto const& value = graph_.edges[edge];
            report_.notes.push_back("\"" + value.name + "\" (" + std::string(name_of(value.dtype)) +
                                    refactor::to_string(value.shape, model_.symbols) + ") is copied " +
                                    (from == kHost ? "to the device" : "to the host"));
        }
    }

public:
    Cutter(Model const& model, std::vector<uint32_t> const& colours, PassReport& report)
        : graph_(model.graph.sort(false)),
          model_(model),
          parts_(graph_topo::partition_convex(graph_.topo, colours)),
          report_(report) {}

    std::vector<Piece> run(uint32_t& values) {
        values = number_values();
        tell_copies();
        std::vector<Piece> pieces;
        for (uint32_t part = 0; part < parts_.size(); ++part)
            if (auto next = piece(part); !next.outputs.empty()) pieces.push_back(std::move(next));
        return pieces;
    }
};

}  // namespace

std::vector<Piece> cut_by_device(Model const& model, PassContext const& context, mem_manager::Device& place,
                                 PassReport& report, uint32_t& values) {
    auto colours = colours_of(model, context, place, report);
    report.changes = static_cast<int>(std::count(colours.begin(), colours.end(), kHost));
    if (!report.changes) return {};
    return Cutter(model, colours, report).run(values);
}

}  // namespace refactor::computation
