#include "passes/join_caches.h"

#include "ask_kernels.h"
#include "kernel/ops/cache.h"
#include "kernel/ops/movement.h"
#include "mem_manager/device.h"

#include <algorithm>
#include <optional>
#include <set>

namespace refactor::computation {

namespace {

/// Keys or values of an attention: two pieces joined along the positions.
struct Cache {
    NodePtr concat;
    EdgePtr present;  ///< what others read of it
};

bool only_reads(NodePtr node, EdgePtr edge) {
    auto const consumers = edge->consumers();
    return !edge->is_output() && !edge->value.keep &&
           std::all_of(consumers.begin(), consumers.end(), [&](auto const& use) { return use.node == node; });
}

std::optional<Cache> cache_of(EdgePtr joined, NodePtr attention) {
    auto* concat = joined->producer();
    auto const* info = concat ? info_of<kernel::ConcatInfo>(*concat->value.op) : nullptr;
    if (!info || info->axis != 2 || joined->value.shape.size() != 4 || concat->inputs().size() != 2) return {};
    auto added = concat->input(1)->value.shape[2].constant();
    if (added && *added > kernel::kFewQueries) return {};
    if (concat->outputs().size() == 1) return Cache{concat, joined};
    if (concat->outputs().size() != 2) return {};
    auto* other = concat->output(1 - joined->slot());
    if (only_reads(attention, joined)) return Cache{concat, other};
    if (only_reads(nullptr, other)) return Cache{concat, joined};
    return {};
}

/// Whether all of the tensor, in its order, is read as [batch, heads, rows, row].
bool is_whole(std::span<DimExpr const> place, Shape const& shape) {
    auto row = shape[3], head = shape[2] * row;
    return place[0] == DimExpr(0) && place[1] == shape[1] * head && place[2] == head && place[3] == row;
}

bool reads_whole_caches(NodePtr node, kernel::AttentionInfo const& info) {
    if (info.k_transposed) return false;
    if (!info.views) return true;
    auto params = node->value.op->params();
    auto const &k = node->input(1)->value.shape, &v = node->input(2)->value.shape;
    return k[1] == params[2] && k[2] == params[4] && is_whole(params.subspan(11, 4), k) &&
           is_whole(params.subspan(15, 4), v);
}

/// Whether something in front of `edges` reads what one of these nodes makes.
bool are_behind(std::vector<EdgePtr> edges, NodePtr a, NodePtr b) {
    std::set<NodePtr> seen;
    while (!edges.empty()) {
        auto* edge = edges.back();
        edges.pop_back();
        auto* node = edge ? edge->producer() : nullptr;
        if (!node || !seen.insert(node).second) continue;
        if (node == a || node == b) return true;
        edges.insert(edges.end(), node->inputs().begin(), node->inputs().end());
    }
    return false;
}

class Joining {
    Graph& graph_;
    PassContext const& context_;
    mem_manager::Device& place_;

    bool join(NodePtr node, kernel::AttentionInfo const& info, Cache const& k, Cache const& v) {
        std::vector<EdgePtr> inputs{node->input(0), k.concat->input(0), k.concat->input(1), v.concat->input(0),
                                    v.concat->input(1)};
        for (size_t i = 3; i < node->inputs().size(); ++i) inputs.push_back(node->input(i));
        if (are_behind(inputs, k.concat, v.concat)) return false;
        auto params = node->value.op->params();
        auto op = make_operator(kernel::CachedAttentionInfo{info}, {params.begin(), params.end()});
        EdgePtr const former[]{node->output(), k.present, v.present};
        auto* made = graph_.insert({node->value.name, std::move(op)}, inputs, std::size(former));
        for (size_t i = 0; i < std::size(former); ++i) made->output(i)->value = former[i]->value;
        if (ask_kernels(made, context_, context_.options.device, &place_).kernels.empty()) {
            graph_.erase(made);
            return false;
        }
        for (size_t i = 0; i < std::size(former); ++i) graph_.replace_all_uses(former[i], made->output(i));
        graph_.erase_unused(node);
        return true;
    }

public:
    Joining(Model& model, PassContext const& context)
        : graph_(model.graph), context_(context), place_(mem_manager::find_device(context.options.device, 0)) {}

    bool visit(NodePtr node) {
        auto const* info = node->alive() ? info_of<kernel::AttentionInfo>(*node->value.op) : nullptr;
        if (!info || node->input(1)->value.shape.size() != 4 || node->input(2)->value.shape.size() != 4) return false;
        auto queries = info->views ? node->value.op->params()[3] : node->input(0)->value.shape[2];
        if (queries.constant().value_or(1) > kernel::kFewQueries) return false;
        auto k = cache_of(node->input(1), node), v = cache_of(node->input(2), node);
        return k && v && k->concat != v->concat && reads_whole_caches(node, *info) && join(node, *info, *k, *v);
    }
};

}  // namespace

int join_caches(Model& model, PassContext const& context) {
    if (context.options.device == "cpu") return 0;
    int changes = 0;
    Joining joining(model, context);
    for (auto* node : model.graph.topological()) changes += joining.visit(node);
    return changes;
}

}  // namespace refactor::computation
