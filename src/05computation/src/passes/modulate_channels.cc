#include "passes/modulate_channels.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "passes/edges.h"
#include "passes/expression.h"

#include <algorithm>

namespace refactor::computation {

namespace {

using kernel::ExprOp;

/// What an axis of the weights counts; `One`: it has one element.
enum class Role : uint8_t { One, Output, Input, Tap };
using Roles = std::vector<Role>;

bool is_one(DimExpr const& size) { return size == DimExpr(1); }

struct Factor {
    EdgePtr edge;
    Role role;  ///< Output, Input, or One: the same for all channels
    ExprOp op;  ///< Mul or Div
};

/// A product with a constant, and what moved it, from the last node to the first.
struct Modulated {
    EdgePtr constant = nullptr;
    std::vector<NodePtr> path;
    std::vector<Factor> factors;
};

/// Roles of the axes of `shape`, whose sizes are those of `from` but for ones; nothing if they are not.
std::optional<Roles> roles_in(Shape const& shape, Shape const& from, Roles const& roles) {
    Roles result(shape.size(), Role::One);
    size_t i = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
        if (is_one(shape[axis])) continue;
        while (i < from.size() && is_one(from[i])) ++i;
        if (i == from.size() || !(from[i] == shape[axis])) return std::nullopt;
        result[axis] = roles[i++];
    }
    while (i < from.size() && is_one(from[i])) ++i;
    if (i < from.size()) return std::nullopt;
    return result;
}

/// That of a tensor which is broadcast to `shape`: what its only longer axis counts. Nothing if it has several.
std::optional<Role> role_of(Shape const& operand, Shape const& shape, Roles const& roles) {
    auto role = Role::One;
    for (size_t axis = 0; axis < operand.size(); ++axis) {
        if (is_one(operand[axis])) continue;
        if (role != Role::One) return std::nullopt;
        role = roles[axis + shape.size() - operand.size()];
    }
    if (role == Role::Tap) return std::nullopt;
    return role;
}

/// The operation of a node that multiplies or divides two tensors of f32 and does nothing else.
std::optional<ExprOp> product_of(NodePtr node) {
    if (!info_of<kernel::ElementwiseInfo>(*node->value.op) || node->inputs().size() != 2) return std::nullopt;
    auto expression = Expression::of(node);
    if (expression.outputs.size() != 1 || expression.code.size() != 3) return std::nullopt;
    auto const& code = expression.code[expression.outputs[0]];
    bool direct = code.operands[0] < 2 && code.operands[1] == 1 - code.operands[0] &&
                  expression.input(code.operands[0]) == node->input(0) &&
                  expression.input(code.operands[1]) == node->input(1);
    if (!direct || code.dtype != DataType::F32 || (code.op != ExprOp::Mul && code.op != ExprOp::Div))
        return std::nullopt;
    return code.op;
}

class Walk {
    EdgePtr edge_;
    Roles roles_;
    Modulated found_;

    bool pass_product(NodePtr node) {
        auto op = product_of(node);
        if (!op) return false;
        auto const& shape = edge_->value.shape;
        for (uint32_t side : {0u, 1u}) {
            auto *whole = node->input(side), *factor = node->input(1 - side);
            auto roles = roles_in(whole->value.shape, shape, roles_);
            auto role = role_of(factor->value.shape, shape, roles_);
            if (!roles || !role || (*op == ExprOp::Div && side == 1)) continue;
            found_.factors.push_back({factor, *role, *op});
            edge_ = whole, roles_ = std::move(*roles);
            return true;
        }
        return false;
    }
    bool pass_move(NodePtr node) {
        auto* from = node->input(0);
        if (node->value.op->is_alias()) {
            auto roles = roles_in(from->value.shape, edge_->value.shape, roles_);
            if (!roles) return false;
            roles_ = std::move(*roles);
        } else {
            auto const* transpose = info_of<kernel::TransposeInfo>(*node->value.op);
            if (!transpose) return false;
            Roles roles(roles_.size());
            for (size_t i = 0; i < roles.size(); ++i) roles[static_cast<size_t>(transpose->perm[i])] = roles_[i];
            roles_ = std::move(roles);
        }
        edge_ = from;
        return true;
    }

public:
    Walk(EdgePtr weights, Role first, Role second) : edge_(weights), roles_(weights->value.shape.size(), Role::Tap) {
        roles_[0] = first, roles_[1] = second;
    }
    /// Nothing unless the weights are such a product.
    std::optional<Modulated> run() {
        while (!edge_->value.constant) {
            auto* node = edge_->producer();
            if (!node || node->outputs().size() != 1 || edge_->value.dtype != DataType::F32) return std::nullopt;
            if (!pass_product(node) && !pass_move(node)) return std::nullopt;
            found_.path.push_back(node);
        }
        found_.constant = edge_;
        if (found_.factors.empty() || edge_->value.dtype != DataType::F32) return std::nullopt;
        return std::move(found_);
    }
};

struct Convolution {
    kernel::Epilogue epilogue;
    Role first, second;  ///< axes of the weights
};

std::optional<Convolution> convolution_of(NodePtr node) {
    auto const& op = *node->value.op;
    if (auto const* conv = info_of<kernel::ConvInfo>(op); conv && conv->group == 1)
        return Convolution{conv->epilogue, Role::Output, Role::Input};
    if (auto const* conv = info_of<kernel::ConvTransposeInfo>(op); conv && conv->group == 1)
        return Convolution{conv->epilogue, Role::Input, Role::Output};
    return std::nullopt;
}

/// Elements, if they are known.
std::optional<int64_t> count_of(EdgePtr edge) { return element_count(edge->value.shape).constant(); }

/// Multiplying the images costs less than making and packing weights for every run: always where these have several
/// taps, each of which reads the images.
bool pays(NodePtr node) {
    auto const& weights = node->input(1)->value.shape;
    for (size_t axis = 2; axis < weights.size(); ++axis)
        if (!is_one(weights[axis])) return true;
    auto x = count_of(node->input(0)), w = count_of(node->input(1)), y = count_of(node->output());
    return x && w && y && *x + *y <= *w;
}

EdgePtr reshaped(Graph& graph, EdgePtr edge, Shape shape) {
    if (edge->value.shape == shape) return edge;
    auto name = edge->value.name + ".respelled";
    auto* node = graph.insert({name, std::make_shared<Reshape>()}, {edge});
    node->output()->value = {name, edge->value.dtype, std::move(shape), {}, nullptr, false};
    return node->output();
}

/// The constant, moved as the product was.
EdgePtr moved(Graph& graph, Modulated const& modulated) {
    auto* edge = modulated.constant;
    for (auto i = modulated.path.size(); i-- > 0;) {
        auto* node = modulated.path[i];
        auto const& shape = node->output()->value.shape;
        if (!info_of<kernel::TransposeInfo>(*node->value.op)) {
            edge = reshaped(graph, edge, shape);
            continue;
        }
        auto name = node->output()->value.name + ".unmodulated";
        auto* copy = graph.insert({name, node->value.op}, {edge});
        copy->output()->value = {name, DataType::F32, shape, {}, nullptr, false};
        edge = copy->output();
    }
    return edge;
}

/// `op` of the channels of `edge`, whose shape the result has, and a tensor of one element, or one for each channel.
EdgePtr apply(Graph& graph, ExprOp op, EdgePtr edge, EdgePtr channels, std::string name) {
    Shape shape(edge->value.shape.size(), DimExpr(1));
    shape[1] = element_count(channels->value.shape);
    auto expression = make_expression(op, DataType::F32, {edge, reshaped(graph, channels, std::move(shape))});
    auto* node = graph.insert({name, make_operator(kernel::ElementwiseInfo{expression.code, expression.outputs})},
                              expression.inputs);
    node->output()->value = {std::move(name), DataType::F32, edge->value.shape, {}, nullptr, false};
    return node->output();
}

/// The Resize that makes `edge` for one reader alone and shrinks no axis, or null.
NodePtr enlarging(EdgePtr edge) {
    auto* node = edge->producer();
    auto const* info = node ? info_of<kernel::ResizeInfo>(*node->value.op) : nullptr;
    if (!info || info->coordinates == kernel::ResizeCoordinates::TfCropAndResize || !is_private(edge)) return nullptr;
    auto const &x = node->input(0)->value.shape, &y = edge->value.shape;
    if (x[0] != y[0] || x[1] != y[1]) return nullptr;
    for (size_t axis = 2; axis < x.size(); ++axis) {
        auto from = x[axis].constant(), to = y[axis].constant();
        if (!from || !to || *to < *from) return nullptr;
    }
    return node;
}

void modulate_input(Graph& graph, NodePtr node, Factor const& factor) {
    auto* reader = node;
    if (auto* resize = enlarging(node->input(0))) reader = resize;
    auto* x = reader->input(0);
    graph.set_input(reader, 0, apply(graph, factor.op, x, factor.edge, x->value.name + ".modulated"));
}

std::shared_ptr<Operator const> without_bias(Operator const& op) {
    std::vector<DimExpr> params(op.params().begin(), op.params().end());
    auto strip = [&](auto info) {
        info.epilogue.bias = false;
        return make_operator(std::move(info), std::move(params));
    };
    if (auto const* conv = info_of<kernel::ConvInfo>(op)) return strip(*conv);
    return strip(*info_of<kernel::ConvTransposeInfo>(op));
}

/// Puts the factors of output channels, and then the bias, behind the convolution.
void modulate_output(Graph& graph, NodePtr node, std::vector<Factor> const& factors, bool has_bias) {
    auto* y = node->output();
    auto* made = graph.insert({node->value.name, without_bias(*node->value.op)}, {node->input(0), node->input(1)});
    auto* last = made->output();
    last->value = {y->value.name + ".unmodulated", DataType::F32, y->value.shape, {}, nullptr, false};
    for (size_t i = 0; i < factors.size(); ++i)
        last = apply(graph, factors[i].op, last, factors[i].edge, y->value.name + ".modulated" + std::to_string(i));
    if (has_bias) last = apply(graph, ExprOp::Add, last, node->input(2), y->value.name + ".biased");
    last->value = y->value;
    graph.replace_all_uses(y, last);
    graph.erase(node);
}

bool modulate(Graph& graph, NodePtr node) {
    auto conv = convolution_of(node);
    if (!conv || node->output()->value.dtype != DataType::F32) return false;
    auto plain = conv->epilogue;
    plain.bias = false;
    if (!(plain == kernel::Epilogue{}) || !pays(node)) return false;
    auto modulated = Walk(node->input(1), conv->first, conv->second).run();
    if (!modulated) return false;
    graph.set_input(node, 1, moved(graph, *modulated));
    std::vector<Factor> behind;
    for (auto const& factor : modulated->factors)
        if (factor.role == Role::Input)
            modulate_input(graph, node, factor);
        else
            behind.push_back(factor);
    if (!behind.empty()) modulate_output(graph, node, behind, conv->epilogue.bias);
    return true;
}

}  // namespace

int modulate_channels(Model& model, PassContext const& context) {
    if (context.options.device != "cpu") return 0;
    int changes = 0;
    for (auto* node : model.graph.topological()) changes += modulate(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
