#include "passes/fuse_elementwise.h"

#include "passes/expression.h"

namespace refactor::computation {

namespace {

/// Longer chains are cut: one more pass over memory is little beside this many instructions, and merging costs their
/// square.
constexpr size_t kMostInstructions = 128;
constexpr size_t kMostInputs = 48;

/// The one node that reads all outputs of `node`, or null.
NodePtr only_reader(NodePtr node) {
    NodePtr reader = nullptr;
    for (auto* edge : node->outputs()) {
        if (edge->is_output() || edge->value.keep) return nullptr;
        for (auto [consumer, slot] : edge->consumers()) {
            if (reader && consumer != reader) return nullptr;
            reader = consumer;
        }
    }
    return reader;
}

bool mergeable(NodePtr node, NodePtr reader) {
    if (!reader || !info_of<kernel::ElementwiseInfo>(*reader->value.op)) return false;
    return node->output()->value.shape == reader->output()->value.shape &&
           node->inputs().size() + reader->inputs().size() <= kMostInputs;
}

}  // namespace

int fuse_elementwise(Model& model, PassContext const&) {
    int merged = 0;
    for (auto* node : model.graph.topological()) {
        if (!info_of<kernel::ElementwiseInfo>(*node->value.op)) continue;
        auto before = Expression::of(node);
        auto size = before.code.size();
        before.normalize();
        if (before.code.size() != size || before.inputs.size() != node->inputs().size())
            before.store(model.graph, node);
    }
    // Consumers first: a value that two nodes of one chain read has one reader once those are merged.
    for (auto* node : model.graph.topological().reversed()) {
        if (!info_of<kernel::ElementwiseInfo>(*node->value.op)) continue;
        auto* reader = only_reader(node);
        if (!mergeable(node, reader)) continue;
        auto expression = merge(node, reader);
        if (expression.code.size() > kMostInstructions) continue;
        expression.store(model.graph, reader);
        model.graph.erase(node);
        ++merged;
    }
    return merged;
}

}  // namespace refactor::computation
