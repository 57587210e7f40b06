#include "passes/fuse_group_norm.h"

#include "kernel/ops/elementwise.h"
#include "kernel/ops/reduce.h"
#include "passes/affine.h"
#include "passes/constants.h"
#include "passes/edges.h"

namespace refactor::computation {

namespace {

using Numbers = std::vector<double>;

/// A normalisation with constant scale and bias.
struct Norm {
    EdgePtr x;
    kernel::GroupNormInfo info;
    Numbers scale, bias;  ///< of every channel
    NodePtr last;         ///< the node that makes the result
};

std::optional<Norm> norm_of(NodePtr node) {
    auto const* info = info_of<kernel::GroupNormInfo>(*node->value.op);
    auto scale = info ? numbers_of(node->input(1)) : std::nullopt;
    auto bias = info ? numbers_of(node->input(2)) : std::nullopt;
    if (!scale || !bias || node->input(0)->value.dtype != DataType::F32) return std::nullopt;
    return Norm{node->input(0), *info, std::move(*scale), std::move(*bias), node};
}

Numbers repeated(Numbers const& numbers, size_t times) {
    Numbers all;
    for (auto number : numbers) all.insert(all.end(), times, number);
    return all;
}

/// Takes the Reshapes on both sides into the normalisation.
bool join_reshapes(Norm& norm) {
    auto *merge = norm.x->producer(),
         *apart = is_private(norm.last->output()) ? norm.last->output()->only_consumer() : nullptr;
    if (norm.info.groups || !merge || !apart || !merge->value.op->is_alias() || !apart->value.op->is_alias())
        return false;
    auto const &x = merge->input(0)->value.shape, &merged = norm.x->value.shape;
    if (x.size() < 3 || merged.size() < 2 || x != apart->output()->value.shape || x[0] != merged[0]) return false;
    auto channels = x[1].constant(), groups = merged[1].constant();
    if (!channels || !groups || *groups <= 0 || *channels % *groups) return false;
    auto times = static_cast<size_t>(*channels / *groups);
    norm.info.groups = *groups, norm.x = merge->input(0), norm.last = apart;
    norm.scale = repeated(norm.scale, times), norm.bias = repeated(norm.bias, times);
    return true;
}

/// Takes an Elementwise node behind it that only scales and shifts channels.
bool join_affine(Norm& norm) {
    auto* y = norm.last->output();
    auto* next = is_private(y) ? y->only_consumer() : nullptr;
    if (!next || !info_of<kernel::ElementwiseInfo>(*next->value.op) || next->outputs().size() != 1 ||
        next->output()->value.shape != y->value.shape || next->output()->value.dtype != DataType::F32)
        return false;
    auto affine = affine_of(next, y, 1, static_cast<int64_t>(norm.scale.size()));
    if (!affine || !affine->variable) return false;
    for (size_t c = 0; c < norm.scale.size(); ++c) {
        auto a = pick(affine->a, c), b = pick(affine->b, c);
        norm.scale[c] *= a, norm.bias[c] = a * norm.bias[c] + b;
    }
    norm.last = next;
    return true;
}

bool fuse(Graph& graph, NodePtr node) {
    auto norm = norm_of(node);
    if (!norm) return false;
    bool changed = join_reshapes(*norm);
    while (join_affine(*norm)) changed = true;
    if (!changed) return false;
    auto const& name = node->value.name;
    auto add = [&](char const* suffix, Numbers const& numbers) {
        return add_numbers(graph, name + suffix, std::vector<float>(numbers.begin(), numbers.end()));
    };
    auto* fused = graph.insert({name, make_operator(norm->info)},
                               {norm->x, add(".scale", norm->scale), add(".bias", norm->bias)});
    auto* old = norm->last->output();
    fused->output()->value = old->value;
    graph.replace_all_uses(old, fused->output());
    graph.erase_unused(norm->last);
    return true;
}

}  // namespace

int fuse_group_norm(Model& model, PassContext const&) {
    int fused = 0;
    for (auto* node : model.graph.topological()) fused += node->alive() && fuse(model.graph, node);
    return fused;
}

}  // namespace refactor::computation
