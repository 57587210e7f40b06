#include "passes/fuse_rotary.h"

#include "kernel/ops/movement.h"
#include "kernel/ops/rotary.h"
#include "passes/expression.h"
#include "passes/insert_step.h"

#include <algorithm>
#include <map>

namespace refactor::computation {

using kernel::ExprOp;

namespace {

/// A sum of products of two inputs, each once: their numbers, the smaller first, and the sign.
using Bilinear = std::map<std::pair<uint16_t, uint16_t>, int>;

/// What a program of floats computes, if that is such a sum.
class BilinearForm {
    Expression const& expression_;

    /// The input that an instruction is, or none.
    std::optional<uint16_t> input_of(uint16_t i) const {
        auto const& instruction = expression_.code[i];
        if (instruction.op == ExprOp::Input) return instruction.operands[0];
        return instruction.op == ExprOp::Cast && is_float(instruction.dtype) ? input_of(instruction.operands[0])
                                                                             : std::nullopt;
    }
    bool add(uint16_t i, int sign, Bilinear& sum) const {
        auto const& [op, dtype, operands, alpha, beta, value, integer] = expression_.code[i];
        if (!is_float(dtype)) return false;
        if (op == ExprOp::Cast) return add(operands[0], sign, sum);
        if (op == ExprOp::Neg) return add(operands[0], -sign, sum);
        if (op == ExprOp::Add || op == ExprOp::Sub)
            return add(operands[0], sign, sum) && add(operands[1], op == ExprOp::Add ? sign : -sign, sum);
        if (op != ExprOp::Mul) return false;
        auto a = input_of(operands[0]), b = input_of(operands[1]);
        return a && b && sum.emplace(std::minmax(*a, *b), sign).second;
    }

public:
    explicit BilinearForm(Expression const& expression) : expression_(expression) {}
    std::optional<Bilinear> get() const {
        Bilinear sum;
        return expression_.outputs.size() == 1 && add(expression_.outputs[0], 1, sum) ? std::optional(sum)
                                                                                      : std::nullopt;
    }
};

/// A product of two edges in such a sum.
struct Term {
    EdgePtr a, b;
    int sign;

    EdgePtr beside(EdgePtr edge) const { return edge == a ? b : edge == b ? a : nullptr; }
};

/// Both terms of a node that is a sum of two products.
std::vector<Term> terms_of(NodePtr node) {
    if (!node || !info_of<kernel::ElementwiseInfo>(*node->value.op)) return {};
    auto expression = Expression::of(node);
    expression.normalize();
    auto form = BilinearForm(expression).get();
    std::vector<Term> terms;
    if (!form || form->size() != 2) return terms;
    for (auto const& [inputs, sign] : *form)
        terms.push_back({expression.inputs[inputs.first], expression.inputs[inputs.second], sign});
    return terms;
}

/// Elements of a row: from `start` on, `step` apart.
struct Part {
    EdgePtr row = nullptr;  ///< null: none
    int64_t start = 0, step = 1;

    explicit Part(EdgePtr edge) {
        auto const* node = edge->producer();
        auto const* info = node ? info_of<kernel::SliceInfo>(*node->value.op) : nullptr;
        auto params = info ? node->value.op->params() : std::span<DimExpr const>();
        if (params.empty() || !params.back().constant()) return;
        for (size_t axis = 0; axis + 1 < params.size(); ++axis)
            if (params[axis] != DimExpr(0) || info->steps[axis] != 1 ||
                edge->value.shape[axis] != node->input(0)->value.shape[axis])
                return;
        row = node->input(0), start = *params.back().constant(), step = info->steps.back();
    }
};

std::optional<int64_t> width_of(EdgePtr edge) {
    return edge->value.shape.empty() ? std::nullopt : edge->value.shape.back().constant();
}

struct Rotation {
    EdgePtr x = nullptr, cos = nullptr, sin = nullptr;  ///< null: none
    kernel::RotaryInfo info;
};

/// Operands of a concatenation of rows, behind Reshapes that add an axis of one element if `pairs`.
std::vector<EdgePtr> pieces_of(NodePtr node, bool pairs) {
    auto const* info = node ? info_of<kernel::ConcatInfo>(*node->value.op) : nullptr;
    if (!info || node->outputs().size() != 1) return {};
    auto rank = static_cast<int64_t>(node->output()->value.shape.size());
    std::vector<EdgePtr> pieces(node->inputs().begin(), node->inputs().end());
    if (info->axis != rank - 1) return {};
    for (auto& piece : pieces) {
        if (!pairs) continue;
        auto const* reshape = piece->producer();
        auto shape = piece->value.shape;
        if (!reshape || !reshape->value.op->is_alias() || shape.empty() || shape.back() != DimExpr(1)) return {};
        piece = reshape->input(0), shape.pop_back();
        if (piece->value.shape != shape) return {};
    }
    return pieces;
}

/// `[a cos - b sin, b cos + a sin]`.
Rotation of_halves(NodePtr node, bool pairs) {
    auto pieces = pieces_of(node, pairs);
    if (pieces.size() != 2) return {};
    auto first = terms_of(pieces[0]->producer()), second = terms_of(pieces[1]->producer());
    if (first.empty() || second.empty()) return {};
    if (first[0].sign < 0) std::swap(first[0], first[1]);
    if (first[0].sign < 0 || first[1].sign > 0 || second[0].sign < 0 || second[1].sign < 0) return {};
    for (auto* a : {first[0].a, first[0].b})
        for (auto* b : {first[1].a, first[1].b}) {
            auto *cos = first[0].beside(a), *sin = first[1].beside(b);
            Part const low(a), high(b);
            auto is = [](Term const& term, EdgePtr x, EdgePtr y) { return term.beside(x) == y; };
            bool turned =
                (is(second[0], b, cos) && is(second[1], a, sin)) || (is(second[1], b, cos) && is(second[0], a, sin));
            auto half = width_of(a);
            if (!turned || !low.row || low.row != high.row || !half || width_of(b) != half) continue;
            if (low.start != 0 || high.start != (pairs ? 1 : *half) || low.step != (pairs ? 2 : 1) ||
                high.step != low.step)
                continue;
            if (low.row->value.shape.size() != node->output()->value.shape.size() - pairs) continue;
            return {low.row, cos, sin, {*half, pairs, false}};
        }
    return {};
}

/// That of all elements of a row, or of those in front of some that are concatenated with them again.
Rotation of_parts(NodePtr node) {
    auto whole = [](NodePtr concat) {
        auto r = of_halves(concat, false);
        return r.x ? r : of_halves(concat, true);
    };
    if (auto r = whole(node); r.x && width_of(r.x) == 2 * r.info.half) return r;
    auto pieces = pieces_of(node, false);
    if (pieces.size() != 2) return {};
    auto* turned = pieces[0];
    auto* inner = turned->producer();
    if (inner && inner->value.op->is_alias()) inner = inner->input(0)->producer();
    auto r = inner ? whole(inner) : Rotation{};
    Part const rest(pieces[1]);
    bool behind = r.x && rest.row == r.x && rest.start == 2 * r.info.half && rest.step == 1;
    return behind && node->output()->value.shape == r.x->value.shape && width_of(turned) == rest.start ? r : Rotation{};
}

/// The operand that a node changes the sign of, and nothing else; or null.
EdgePtr negated(NodePtr node) {
    if (!node || !info_of<kernel::ElementwiseInfo>(*node->value.op)) return nullptr;
    auto expression = Expression::of(node);
    expression.normalize();
    if (expression.outputs.size() != 1) return nullptr;
    auto uncast = [&](uint16_t i) {
        while (expression.code[i].op == ExprOp::Cast && is_float(expression.code[i].dtype))
            i = expression.code[i].operands[0];
        return i;
    };
    auto const& last = expression.code[uncast(expression.outputs[0])];
    return last.op == ExprOp::Neg ? expression.input(uncast(last.operands[0])) : nullptr;
}

/// `x cos + [-b, a] sin`.
Rotation of_rows(NodePtr node) {
    auto terms = terms_of(node);
    if (terms.empty() || terms[0].sign < 0 || terms[1].sign < 0) return {};
    for (auto const& [one, other] : {std::pair{terms[0], terms[1]}, std::pair{terms[1], terms[0]}})
        for (auto* x : {one.a, one.b})
            for (auto* turned : {other.a, other.b}) {
                auto pieces = pieces_of(turned->producer(), false);
                if (pieces.size() != 2) continue;
                auto* b = negated(pieces[0]->producer());
                if (!b) continue;
                Part const high(b), low(pieces[1]);
                auto half = width_of(b), width = width_of(x);
                if (high.row != x || low.row != x || !half || width_of(pieces[1]) != half || width != 2 * *half)
                    continue;
                if (high.start != *half || low.start != 0 || high.step != 1 || low.step != 1) continue;
                return {x, one.beside(x), other.beside(turned), {*half, false, true}};
            }
    return {};
}

bool are_angles(Rotation const& r) {
    auto const& shape = r.x->value.shape;
    for (auto* angles : {r.cos, r.sin}) {
        auto const& value = angles->value;
        if (value.dtype != r.x->value.dtype || value.shape != r.cos->value.shape || value.shape.size() > shape.size() ||
            width_of(angles) != (r.info.both ? 2 : 1) * r.info.half)
            return false;
        for (size_t i = 2; i <= value.shape.size(); ++i) {
            auto const& size = value.shape[value.shape.size() - i];
            if (size != DimExpr(1) && size != shape[shape.size() - i]) return false;
        }
    }
    return true;
}

bool fuse(Graph& graph, NodePtr node) {
    auto r = of_parts(node);
    if (!r.x) r = of_rows(node);
    auto* y = node->output();
    if (!r.x || y->value.dtype != r.x->value.dtype || !are_angles(r)) return false;
    auto const& shape = r.x->value.shape;
    std::vector<EdgePtr> inputs{r.x, r.cos, r.sin};
    for (size_t i = 1; i < 3; ++i) {
        auto* angles = inputs[i];
        Shape all(shape.size() - angles->value.shape.size(), DimExpr(1));
        all.insert(all.end(), angles->value.shape.begin(), angles->value.shape.end());
        if (all != angles->value.shape)
            inputs[i] = insert_step(graph, angles, "rows", std::make_shared<Reshape>(), {angles}, std::move(all));
    }
    auto* made = graph.insert({node->value.name, make_operator(r.info)}, inputs);
    auto* turned = made->output();
    turned->value = y->value;
    if (shape != y->value.shape) {
        turned->value.name += ".rows", turned->value.shape = shape, turned->value.keep = false;
        turned = insert_step(graph, y, "pairs", std::make_shared<Reshape>(), {turned}, y->value.shape);
        turned->value = y->value;
    }
    graph.replace_all_uses(y, turned);
    graph.erase_unused(node);
    return true;
}

}  // namespace

int fuse_rotary(Model& model, PassContext const& context) {
    if (context.options.device == "cpu") return 0;
    int changes = 0;
    for (auto* node : model.graph.topological())
        if (node->alive() && node->outputs().size() == 1) changes += fuse(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
