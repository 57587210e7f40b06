#include "passes/fuse_layer_norm.h"

#include "kernel/ops/reduce.h"
#include "passes/expression.h"

namespace refactor::computation {

using kernel::ExprOp;

namespace {

/// A node that computes `op(a, b)` (b may be a scalar constant) or `op(a)` and nothing else.
struct Single {
    ExprOp op{};
    EdgePtr a = nullptr, b = nullptr;
    std::optional<double> constant;  ///< of the second operand (of either, if the operator commutes)
};

std::optional<Single> single_of(EdgePtr edge) {
    auto* node = edge ? edge->producer() : nullptr;
    if (!node || !info_of<kernel::ElementwiseInfo>(*node->value.op) || edge->value.keep) return std::nullopt;
    auto expression = Expression::of(node);
    expression.normalize();
    if (expression.outputs.size() != 1) return std::nullopt;
    auto const& last = expression.code[expression.outputs[0]];
    Single single{last.op, nullptr, nullptr, std::nullopt};
    auto arity = kernel::arity_of(last.op);
    if (arity != 1 && arity != 2) return std::nullopt;
    single.a = expression.input(last.operands[0]);
    if (arity == 2) {
        single.b = expression.input(last.operands[1]), single.constant = expression.constant(last.operands[1]);
        bool commutes = last.op == ExprOp::Add || last.op == ExprOp::Mul;
        if (commutes && !single.a) {
            std::swap(single.a, single.b);
            single.constant = expression.constant(last.operands[0]);
        }
        if (!single.b && !single.constant) return std::nullopt;
    }
    return single.a ? std::optional(single) : std::nullopt;
}

std::optional<Single> single_of(EdgePtr edge, ExprOp op) {
    auto single = single_of(edge);
    return single && single->op == op ? single : std::nullopt;
}

/// `edge` is the mean of what is returned over its last axes, which stay as 1; `first` is the first of them.
EdgePtr mean_input(EdgePtr edge, int64_t& first) {
    auto const* info = producer_info<kernel::ReduceInfo>(edge);
    if (!info || info->kind != kernel::ReduceKind::Mean || info->axes.empty()) return nullptr;
    auto* x = edge->producer()->input(0);
    auto rank = static_cast<int64_t>(x->value.shape.size());
    if (static_cast<int64_t>(edge->value.shape.size()) != rank) return nullptr;
    first = info->axes[0];
    for (size_t i = 0; i < info->axes.size(); ++i)
        if (info->axes[i] != first + static_cast<int64_t>(i)) return nullptr;
    return first + static_cast<int64_t>(info->axes.size()) == rank ? x : nullptr;
}

bool is_square_of(EdgePtr edge, EdgePtr x) {
    auto single = single_of(edge);
    if (!single || single->a != x) return false;
    return (single->op == ExprOp::Pow && single->constant == 2) || (single->op == ExprOp::Mul && single->b == x);
}

/// x and ε of `(x - mean(x)) / sqrt(mean((x - mean(x))²) + ε)`.
struct Normalised {
    EdgePtr x = nullptr;
    int64_t axis = 0;
    double epsilon = 0;
};

std::optional<Normalised> normalised_of(EdgePtr edge) {
    auto quotient = single_of(edge, ExprOp::Div);
    if (!quotient || !quotient->b) return std::nullopt;
    auto* centred = quotient->a;
    auto difference = single_of(centred, ExprOp::Sub);
    if (!difference || !difference->b) return std::nullopt;
    Normalised found;
    found.x = difference->a;
    if (mean_input(difference->b, found.axis) != found.x) return std::nullopt;
    auto root = single_of(quotient->b, ExprOp::Sqrt);
    auto sum = root ? single_of(root->a, ExprOp::Add) : std::nullopt;
    if (!sum || !sum->constant) return std::nullopt;
    found.epsilon = *sum->constant;
    int64_t axis = 0;
    auto* squares = mean_input(sum->a, axis);
    if (!squares || axis != found.axis) return std::nullopt;
    if (is_square_of(squares, centred)) return found;
    // Exporters may compute the difference twice.
    auto square = single_of(squares);
    auto again = square ? single_of(square->a, ExprOp::Sub) : std::nullopt;
    bool equal =
        again && again->a == found.x && again->b && mean_input(again->b, axis) == found.x && axis == found.axis;
    return equal && is_square_of(squares, square->a) ? std::optional(found) : std::nullopt;
}

/// A constant with exactly the normalised axes.
bool is_parameter(EdgePtr edge, Normalised const& found) {
    if (!edge || !edge->is_source() || edge->value.dtype != DataType::F32) return false;
    auto const &shape = edge->value.shape, &x = found.x->value.shape;
    auto axes = x.size() - static_cast<size_t>(found.axis);
    return shape.size() == axes && std::equal(shape.begin(), shape.end(), x.end() - static_cast<ptrdiff_t>(axes));
}

bool fuse(Graph& graph, NodePtr node) {
    if (node->outputs().empty()) return false;
    auto* output = node->output();
    auto shifted = single_of(output, ExprOp::Add);
    auto scaled = shifted ? single_of(shifted->a, ExprOp::Mul) : std::nullopt;
    if (!scaled || output->value.dtype != DataType::F32) return false;
    auto found = normalised_of(scaled->a);
    if (!found || !is_parameter(scaled->b, *found) || !is_parameter(shifted->b, *found)) return false;
    kernel::LayerNormInfo info;
    info.axis = found->axis, info.epsilon = static_cast<float>(found->epsilon), info.has_bias = true;
    auto* fused = graph.insert({node->value.name, make_operator(info)}, {found->x, scaled->b, shifted->b});
    fused->output()->value = output->value;
    graph.replace_all_uses(output, fused->output());
    graph.erase_unused(node);
    return true;
}

}  // namespace

int fuse_layer_norm(Model& model, PassContext const&) {
    int fused = 0;
    for (auto* node : model.graph.topological())
        if (info_of<kernel::ElementwiseInfo>(*node->value.op)) fused += fuse(model.graph, node);
    return fused;
}

}  // namespace refactor::computation
