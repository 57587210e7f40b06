#include "passes/fuse_conv_chains.h"

#include "kernel/ops/conv_chain.h"
#include "passes/estimates.h"

#include <algorithm>

namespace refactor::computation {

namespace {

using kernel::ConvChainInfo;
using kernel::ConvInfo;
using kernel::Operand;

/// Convolutions of which each reads only what the one before it makes, which nobody else reads.
using Chain = std::vector<NodePtr>;

ConvInfo const* conv_of(NodePtr node) {
    auto const* info = node ? info_of<ConvInfo>(*node->value.op) : nullptr;
    if (!info || !node->value.op->params().empty()) return nullptr;
    auto const &x = node->input(0)->value, &w = node->input(1)->value;
    bool constant = w.constant && x.dtype == DataType::F32 && w.dtype == DataType::F32;
    return constant && x.layout != kernel::Layout::Plain ? info : nullptr;
}

bool is_depthwise(NodePtr node) {
    auto const* info = conv_of(node);
    auto w = info ? known_dims(node->input(1)) : Dims{};
    return info && info->group > 1 && w[0] == info->group && w[1] == 1;
}

bool is_pointwise(NodePtr node) {
    auto const* info = conv_of(node);
    if (!info || info->group != 1) return false;
    auto w = known_dims(node->input(1));
    bool one = true;
    for (size_t i = 2; i < w.size(); ++i) one &= w[i] == 1 && info->window.strides[i - 2] == 1;
    return one;
}

/// The convolution that alone reads what `node` makes, as its X.
NodePtr alone_behind(NodePtr node) {
    auto* edge = node->output();
    auto* next = edge->value.keep ? nullptr : edge->only_consumer();
    return next && conv_of(next) && next->input(0) == edge ? next : nullptr;
}

/// The operands that a chain has as one node.
std::vector<EdgePtr> inputs_of(Chain const& chain) {
    std::vector<EdgePtr> inputs{chain[0]->input(0)};
    for (auto* node : chain) inputs.insert(inputs.end(), node->inputs().begin() + 1, node->inputs().end());
    return inputs;
}

ConvChainInfo info_of_chain(Chain const& chain) {
    ConvChainInfo info;
    for (auto* node : chain) info.stages.push_back(*conv_of(node));
    return info;
}

class Estimates {
    PassContext const& context_;

public:
    AssumedSizes const sizes;

    Estimates(Model const& model, PassContext const& context) : context_(context), sizes(model) {}

    /// Time in ns of the fastest kernel for a chain whose X has these sizes; sets them to those of its output.
    std::optional<double> of(Chain const& chain, Dims& dims) {
        std::vector<Operand> inputs;
        auto x = dims;
        for (auto* node : chain)
            dims = kernel::conv_output_dims(conv_of(node)->window, dims, known_dims(node->input(1)));
        for (auto* edge : inputs_of(chain)) {
            auto own = known_dims(edge);
            // Only X and the residual have sizes that may be open.
            bool open = std::find(own.begin(), own.end(), -1) != own.end();
            inputs.push_back(operand_of(edge, inputs.empty() ? x : open ? dims : own));
        }
        auto output = operand_of(chain.back()->output(), dims);
        kernel::Request request{inputs,       {&output, 1},     "cpu",
                                context_.isa, context_.threads, context_.options.precision};
        auto found =
            chain.size() > 1 ? candidates(info_of_chain(chain), request) : chain[0]->value.op->candidates(request);
        return fastest(found, inputs, output, context_.threads);
    }
};

/// The chain around a depthwise convolution that saves most; empty if none does.
Chain best_chain(NodePtr depthwise, Estimates& estimates) {
    auto* edge = depthwise->input(0);
    auto* before = edge->producer();
    bool expands =
        before && is_pointwise(before) && !conv_of(before)->epilogue.residual && alone_behind(before) == depthwise;
    auto* behind = conv_of(depthwise)->epilogue.residual ? nullptr : alone_behind(depthwise);
    bool projects = behind && is_pointwise(behind);
    Chain all;
    if (expands) all.push_back(before);
    all.push_back(depthwise);
    if (projects) all.push_back(behind);
    auto dims = estimates.sizes.dims_of(all[0]->input(0));
    // The stages one by one: sizes before each, and times.
    std::vector<Dims> before_stage;
    std::vector<double> alone;
    for (auto* node : all) {
        before_stage.push_back(dims);
        auto time = estimates.of({node}, dims);
        if (!time) return {};
        alone.push_back(*time);
    }
    Chain best;
    double most = 0;
    for (size_t first = 0; first < all.size(); ++first)
        for (size_t end = first + 2; end <= all.size(); ++end) {
            Chain chain(all.begin() + static_cast<ptrdiff_t>(first), all.begin() + static_cast<ptrdiff_t>(end));
            double separate = 0;
            for (auto i = first; i < end; ++i) separate += alone[i];
            auto sizes = before_stage[first];
            auto joined = estimates.of(chain, sizes);
            // One kernel of a chain runs its stages one by one: what only rounding makes faster is no gain.
            if (joined && separate - *joined > std::max(most, 1e-6 * separate)) most = separate - *joined, best = chain;
        }
    return best;
}

void join(Graph& graph, Chain const& chain) {
    std::string name;
    for (auto* node : chain) name += (name.empty() ? "" : " + ") + node->value.name;
    auto* last = chain.back();
    auto* made = graph.insert({name, make_operator(info_of_chain(chain))}, inputs_of(chain));
    made->output()->value = last->output()->value;
    graph.replace_all_uses(last->output(), made->output());
    graph.erase_unused(last);
}

}  // namespace

int fuse_conv_chains(Model& model, PassContext const& context) {
    if (context.options.device != "cpu" || context.isa < Isa::Avx2) return 0;
    Estimates estimates(model, context);
    int changes = 0;
    for (auto* node : model.graph.topological()) {
        if (!is_depthwise(node)) continue;
        auto chain = best_chain(node, estimates);
        if (chain.empty()) continue;
        join(model.graph, chain);
        ++changes;
    }
    return changes;
}

}  // namespace refactor::computation
