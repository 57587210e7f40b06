#include "passes/sink_squeezes.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "passes/constants.h"
#include "passes/edges.h"
#include "passes/insert_step.h"

#include <algorithm>

namespace refactor::computation {

namespace {

/// Axes of one element that a Reshape takes away behind batch and channels.
class Squeeze {
    EdgePtr before_ = nullptr;
    std::vector<size_t> axes_;  ///< of `before_`
    size_t rank_ = 0;           ///< without them

public:
    /// What made `edge`, or none.
    explicit Squeeze(EdgePtr edge) {
        auto const* node = edge->producer();
        if (!node || !node->value.op->is_alias()) return;
        auto const &from = node->input(0)->value.shape, &to = edge->value.shape;
        size_t kept = 0;
        for (size_t axis = 0; axis < from.size(); ++axis) {
            bool stays = kept < to.size() && from[axis] == to[kept];
            if (stays && !(axis >= 2 && from[axis] == DimExpr(1) && from.size() - axis > to.size() - kept)) {
                ++kept;
            } else if (axis >= 2 && from[axis] == DimExpr(1)) {
                axes_.push_back(axis);
            } else {
                return;
            }
        }
        if (kept == to.size() && kept >= 2 && !axes_.empty()) before_ = node->input(0), rank_ = kept;
    }
    explicit operator bool() const { return before_; }
    EdgePtr before() const { return before_; }
    bool operator==(Squeeze const& other) const { return axes_ == other.axes_ && rank_ == other.rank_; }
    /// The axes of an operand that broadcasts to the result, with those that were taken.
    Shape undone(Shape const& shape) const {
        Shape all(rank_ - shape.size(), DimExpr(1));
        all.insert(all.end(), shape.begin(), shape.end());
        for (auto axis : axes_) all.insert(all.begin() + static_cast<std::ptrdiff_t>(axis), DimExpr(1));
        return all;
    }
};

/// The node on operands that keep the axes, and the Reshape behind it.
void rebuild(Graph& graph, NodePtr node, std::vector<EdgePtr> const& inputs, Shape shape) {
    auto const value = node->output()->value;
    auto* above = graph.insert({node->value.name, node->value.op}, inputs);
    above->output()->value = {value.name + ".whole", value.dtype, std::move(shape), {}, nullptr, false};
    auto* squeezed = graph.insert({node->value.name, std::make_shared<Reshape>()}, {above->output()});
    squeezed->output()->value = value;
    graph.replace_all_uses(node->output(), squeezed->output());
    graph.erase(node);
}

/// An operand as it broadcasts to what keeps the axes.
EdgePtr reshaped(Graph& graph, EdgePtr input, Squeeze const& squeeze) {
    auto const& value = input->value;
    if (element_count(value.shape) == DimExpr(1)) return input;
    auto shape = squeeze.undone(value.shape);
    if (value.constant) return add_constant(graph, value.name + ".whole", value.dtype, shape, value.constant);
    return insert_step(graph, input, "whole", std::make_shared<Reshape>(), {input}, std::move(shape));
}

bool sink_below_elementwise(Graph& graph, NodePtr node) {
    auto const& shape = node->output()->value.shape;
    auto const given = node->inputs();
    auto whole = std::find_if(given.begin(), given.end(), [&](EdgePtr x) {
        return x->value.shape == shape && Squeeze(x) && is_behind_convolution(Squeeze(x).before());
    });
    if (whole == given.end()) return false;
    Squeeze const squeeze(*whole);
    std::vector<EdgePtr> inputs;
    for (auto* input : given) {
        Squeeze const same(input);
        inputs.push_back(same && same == squeeze ? same.before() : reshaped(graph, input, squeeze));
    }
    rebuild(graph, node, inputs, squeeze.undone(shape));
    return true;
}

bool sink_below_pool(Graph& graph, NodePtr node) {
    Squeeze const squeeze(node->input(0));
    if (!squeeze || !is_behind_convolution(squeeze.before())) return false;
    rebuild(graph, node, {squeeze.before()}, squeeze.undone(node->output()->value.shape));
    return true;
}

}  // namespace

int sink_squeezes(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological()) {
        if (!node->alive() || node->outputs().size() != 1 || node->output()->value.keep) continue;
        if (info_of<kernel::ElementwiseInfo>(*node->value.op))
            changes += sink_below_elementwise(model.graph, node);
        else if (info_of<kernel::GlobalPoolInfo>(*node->value.op))
            changes += sink_below_pool(model.graph, node);
    }
    return changes;
}

}  // namespace refactor::computation
