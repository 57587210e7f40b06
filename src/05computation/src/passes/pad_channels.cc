#include "passes/pad_channels.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "passes/insert_step.h"

#include <map>

namespace refactor::computation {

namespace {

/// With fewer channels most of a vector would be zeros.
constexpr int64_t kFewest = 3;

class Padding {
    Graph& graph_;
    std::map<EdgePtr, EdgePtr> padded_{};

    /// With zeros behind the last axis.
    EdgePtr padded(EdgePtr from, int64_t channels) {
        auto& known = padded_[from];
        if (known) return known;
        auto shape = from->value.shape;
        shape.back() = DimExpr(channels);
        return known = insert_step(graph_, from, "padded",
                                   make_operator(kernel::PadInfo{}, std::vector<DimExpr>(shape.size(), DimExpr(0))),
                                   {from}, shape);
    }

public:
    explicit Padding(Graph& graph) : graph_(graph) {}

    bool take(NodePtr node) {
        auto const* info = info_of<kernel::ConvInfo>(*node->value.op);
        if (!info || !info->channels_last || info->group != 1 || !node->value.op->params().empty()) return false;
        auto *x = node->input(0), *w = node->input(1);
        auto channels = x->value.shape.back().constant();
        if (!channels || !w->value.shape.back().constant()) return false;
        auto vector = 128 / static_cast<int64_t>(bits_of(x->value.dtype));
        bool few = *channels >= kFewest && *channels<vector, odd = *channels> vector && *channels % 2 != 0;
        if (!few && !odd) return false;
        auto whole = (*channels + vector - 1) / vector * vector;
        std::vector<EdgePtr> inputs(node->inputs().begin(), node->inputs().end());
        inputs[0] = padded(x, whole), inputs[1] = padded(w, whole);
        auto* made = graph_.insert({node->value.name, node->value.op}, inputs);
        made->output()->value = node->output()->value;
        graph_.replace_all_uses(node->output(), made->output());
        graph_.erase(node);
        return true;
    }
};

}  // namespace

int pad_channels(Model& model, PassContext const& context) {
    if (context.options.device == "cpu") return 0;
    int changes = 0;
    Padding padding(model.graph);
    for (auto* node : model.graph.topological()) changes += padding.take(node);
    return changes;
}

}  // namespace refactor::computation
