#include "passes/hoist_reshapes.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/matmul.h"
#include "passes/edges.h"

#include <algorithm>

namespace refactor::computation {

namespace {

bool is_elementwise(NodePtr node) {
    return node && info_of<kernel::ElementwiseInfo>(*node->value.op) && node->outputs().size() == 1;
}

/// What `edge` was made of, element by element, is what a node with weights computes.
bool is_behind_weights(EdgePtr edge) {
    auto const& shape = edge->value.shape;
    while (is_elementwise(edge->producer())) {
        auto const inputs = edge->producer()->inputs();
        auto whole = std::find_if(inputs.begin(), inputs.end(), [&](EdgePtr x) { return x->value.shape == shape; });
        if (whole == inputs.end()) return false;
        edge = *whole;
    }
    auto* node = edge->producer();
    if (!node) return false;
    auto const& op = *node->value.op;
    if (info_of<kernel::MatMulInfo>(op)) return node->input(1)->value.shape.size() == 2;
    return info_of<kernel::ConvInfo>(op) || info_of<kernel::ConvTransposeInfo>(op);
}

/// A Reshape from one shape to another, of operands that broadcast to the first.
class Respelling {
    Shape const &from_, &to_;
    size_t same_ = 0;  ///< last axes that stay

    Shape with_last(Shape first, Shape const& shape) const {
        first.insert(first.end(), shape.end() - static_cast<std::ptrdiff_t>(same_), shape.end());
        return first;
    }

public:
    Respelling(Shape const& from, Shape const& to) : from_(from), to_(to) {
        auto most = std::min(from.size(), to.size());
        while (same_ < most && from[from.size() - 1 - same_] == to[to.size() - 1 - same_]) ++same_;
    }
    /// That of an operand, or nothing if its elements would have to be repeated.
    std::optional<Shape> of(Shape const& shape) const {
        if (shape == from_) return to_;
        if (shape.size() <= same_) return shape;
        Shape const first(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(same_));
        if (std::all_of(first.begin(), first.end(), [](DimExpr const& size) { return size == DimExpr(1); }))
            return with_last({}, shape);
        if (shape.size() == from_.size() && std::equal(first.begin(), first.end(), from_.begin()))
            return with_last({to_.begin(), to_.end() - static_cast<std::ptrdiff_t>(same_)}, shape);
        return std::nullopt;
    }
};

/// The Reshape that alone reads `node` and that alone an Elementwise node of its shape reads.
NodePtr reshape_between(NodePtr node) {
    auto* reshape = is_private(node->output()) ? node->output()->only_consumer() : nullptr;
    if (!reshape || !reshape->value.op->is_alias() || !is_private(reshape->output())) return nullptr;
    auto* next = reshape->output()->only_consumer();
    bool joins = is_elementwise(next) && next->output()->value.shape == reshape->output()->value.shape;
    return joins ? reshape : nullptr;
}

bool hoist(Graph& graph, NodePtr node) {
    auto* reshape = reshape_between(node);
    if (!reshape || is_behind_weights(node->output())) return false;
    auto const &from = node->output()->value.shape, &to = reshape->output()->value.shape;
    Respelling const respelling(from, to);
    std::vector<Shape> shapes;
    bool whole = false;
    for (auto* input : node->inputs()) {
        auto shape = respelling.of(input->value.shape);
        if (!shape) return false;
        whole |= *shape == to;
        shapes.push_back(std::move(*shape));
    }
    if (!whole) return false;
    std::vector<EdgePtr> inputs;
    for (size_t i = 0; i < shapes.size(); ++i) {
        auto* input = node->input(i);
        if (shapes[i] != input->value.shape) {
            auto name = input->value.name + ".respelled";
            auto* before = graph.insert({name, std::make_shared<Reshape>()}, {input});
            before->output()->value = {name, input->value.dtype, shapes[i], {}, nullptr, false};
            input = before->output();
        }
        inputs.push_back(input);
    }
    auto* above = graph.insert(Node(node->value), inputs);
    above->output()->value = reshape->output()->value;
    graph.replace_all_uses(reshape->output(), above->output());
    graph.erase_unused(reshape);
    return true;
}

}  // namespace

int hoist_reshapes(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological().reversed())
        if (node->alive() && is_elementwise(node)) changes += hoist(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
