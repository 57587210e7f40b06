#include "passes/pad_channels.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "passes/expression.h"
#include "passes/insert_step.h"

#include <map>

namespace refactor::computation {

namespace {

/// With fewer channels most of a vector would be zeros.
constexpr int64_t kFewest = 3;

/// What a Transpose of this node brings the channels of behind, or null.
EdgePtr in_front(EdgePtr last) {
    auto const* node = last->producer();
    auto const* info = node ? info_of<kernel::TransposeInfo>(*node->value.op) : nullptr;
    if (!info || info->perm.size() < 3 || info->perm[0] != 0 || info->perm.back() != 1) return nullptr;
    for (size_t axis = 1; axis + 1 < info->perm.size(); ++axis)
        if (info->perm[axis] != static_cast<int64_t>(axis) + 1) return nullptr;
    return node->input(0);
}

/// What an elementwise node only converts, or the edge itself.
EdgePtr before_cast(EdgePtr edge) {
    auto* node = edge->producer();
    if (!node || !info_of<kernel::ElementwiseInfo>(*node->value.op) || node->outputs().size() != 1) return edge;
    auto expression = Expression::of(node);
    using kernel::ExprOp;
    bool casts = expression.code.size() == 2 && expression.code[0].op == ExprOp::Input &&
                 expression.code[1].op == ExprOp::Cast && expression.inputs.size() == 1 &&
                 expression.inputs[0]->value.shape == edge->value.shape;
    auto type = casts ? expression.inputs[0]->value.dtype : DataType::Undefined;
    return type == DataType::F32 || type == DataType::F16 || type == DataType::BF16 ? expression.inputs[0] : edge;
}

class Padding {
    Graph& graph_;
    std::map<EdgePtr, EdgePtr> padded_{};

    /// With zeros behind the last axis; what is no constant by one step, if it has been turned and converted for this.
    EdgePtr padded(EdgePtr from, int64_t channels) {
        auto& known = padded_[from];
        if (known) return known;
        auto shape = from->value.shape;
        shape.back() = DimExpr(channels);
        auto* front = in_front(from);
        if (front && !front->value.constant && channels * static_cast<int64_t>(bits_of(from->value.dtype)) == 128)
            return known = insert_step(graph_, from, "padded", make_operator(kernel::ChannelVectorsInfo{}),
                                       {before_cast(front)}, shape);
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
