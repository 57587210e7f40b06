#include "passes/attention_scores.h"

#include "passes/edges.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace refactor::computation {

using kernel::ExprOp;

namespace {

/// The one input that is a product, or a Reshape of one; null if there are none or several.
EdgePtr product_in(Expression const& expression) {
    EdgePtr product = nullptr;
    for (auto* edge : expression.inputs) {
        if (!producer_info<kernel::MatMulInfo>(before_reshapes(edge))) continue;
        if (product) return nullptr;
        product = edge;
    }
    return product && is_private(product) ? product : nullptr;
}

class Matcher {
    Expression& e_;
    EdgePtr product_;

    bool capped_ = false, hides_ = false;
    double highest_hidden_ = -INFINITY;  ///< of what takes the place of scores
    float inner_ = 1;                    ///< the factor within the tanh
    std::vector<bool> depends_;          ///< on the product, of the instructions that were there at first

    bool depends(uint16_t i) const { return i < depends_.size() && depends_[i]; }
    uint16_t apply(ExprOp op, uint16_t a, uint16_t b = 0, uint16_t c = 0) {
        return e_.append({.op = op, .dtype = product_->value.dtype, .operands = {a, b, c}});
    }
    void add(uint16_t term) { mask = mask ? apply(ExprOp::Add, *mask, term) : term; }
    /// By what may differ from row to row.
    bool multiply_rows(ExprOp op, uint16_t factor) {
        if (depends(factor) || mask || capped_) return false;
        auto one = [&] { return e_.append({.op = ExprOp::Constant, .dtype = product_->value.dtype, .value = 1}); };
        factors = !factors && op == ExprOp::Mul ? factor : apply(op, factors ? *factors : one(), factor);
        return true;
    }
    bool multiply(ExprOp op, uint16_t inner, uint16_t factor) {
        auto constant = e_.constant(factor);
        if (!match(inner)) return false;
        if (!constant) return multiply_rows(op, factor);
        scale *= static_cast<float>(op == ExprOp::Mul ? *constant : 1 / *constant);
        if (mask) mask = apply(op, *mask, factor);
        highest_hidden_ = op == ExprOp::Mul ? highest_hidden_ * *constant : highest_hidden_ / *constant;
        return true;
    }
    /// The tanh of a product, scaled: a factor above 0 behind it makes it a softcap.
    bool cap(uint16_t inner) {
        if (capped_ || !match(inner) || mask) return false;
        inner_ = scale, scale = 1, capped_ = true;
        return true;
    }
    /// `where(test, a, b)`, one of which hides the scores that the other has.
    bool hide(uint16_t test, uint16_t a, uint16_t b) {
        bool first = depends(a);
        auto hidden = e_.constant(first ? b : a);
        if (depends(test) || !hidden || !match(first ? a : b)) return false;
        hides_ = true, highest_hidden_ = std::max(highest_hidden_, *hidden);
        auto shown = mask ? *mask : e_.append({.op = ExprOp::Constant, .dtype = product_->value.dtype});
        mask = first ? apply(ExprOp::Where, test, shown, b) : apply(ExprOp::Where, test, a, shown);
        return true;
    }

public:
    float scale = 1;
    std::optional<uint16_t> mask, factors;

    Matcher(Expression& expression, EdgePtr product) : e_(expression), product_(product) {
        for (uint16_t i = 0; i < e_.code.size(); ++i) {
            auto const& instruction = e_.code[i];
            bool any = e_.input(i) == product;
            if (instruction.op != ExprOp::Input)
                for (int k = 0; k < kernel::arity_of(instruction.op); ++k)
                    any = any || depends_[instruction.operands[k]];
            depends_.push_back(any);
        }
    }
    /// Factors of a softcap are told apart: scale · tanh(inner · product). What hides scores has to be known by its
    /// size.
    bool read(Scores& scores) const {
        scores.scale = scale;
        if (capped_) scores.softcap = scale, scores.scale = inner_ * scale;
        if (hides_) scores.hidden = kernel::HiddenKeys::Replaced;
        return (!capped_ || scale > 0) && (!hides_ || highest_hidden_ <= static_cast<double>(kernel::kHiddenBelow));
    }
    bool match(uint16_t i) {
        auto const [op, p, q, r] =
            std::tuple(e_.code[i].op, e_.code[i].operands[0], e_.code[i].operands[1], e_.code[i].operands[2]);
        switch (op) {
            case ExprOp::Input:
                return e_.input(i) == product_;
            case ExprOp::Mul:
                return depends(p) ? multiply(op, p, q) : multiply(op, q, p);
            case ExprOp::Div:
                return depends(p) && multiply(op, p, q);
            case ExprOp::Add: {
                auto [inner, term] = depends(p) ? std::pair(p, q) : std::pair(q, p);
                if (depends(term) || !match(inner)) return false;
                add(term);
                return true;
            }
            case ExprOp::Sub:
                if (depends(q) || !match(p)) return false;
                add(apply(ExprOp::Neg, q));
                return true;
            case ExprOp::Tanh:
                return cap(p);
            case ExprOp::Where:
                return hide(p, q, r);
            default:
                return false;
        }
    }
};

/// The program of `node`, and of one before it that has another size only because of a mask.
Expression program_of(NodePtr node) {
    for (auto* input : node->inputs()) {
        auto* before = input->producer();
        if (!before || before->outputs().size() != 1 || !is_private(input) ||
            !info_of<kernel::ElementwiseInfo>(*before->value.op))
            continue;
        if (is_but_for_keys(node->output()->value.shape, input->value.shape) && product_in(Expression::of(before)))
            return merge(before, node);
    }
    auto expression = Expression::of(node);
    expression.normalize();
    return expression;
}

}  // namespace

EdgePtr before_reshapes(EdgePtr edge) {
    while (edge->producer() && edge->producer()->value.op->is_alias() && is_private(edge))
        edge = edge->producer()->input(0);
    return edge;
}

EdgePtr strip_scale(EdgePtr edge, float& factor) {
    auto* node = edge->producer();
    if (!node || !is_private(edge) || !info_of<kernel::ElementwiseInfo>(*node->value.op)) return edge;
    auto expression = Expression::of(node);
    expression.normalize();
    if (expression.outputs.size() != 1 || expression.inputs.size() != 1) return edge;
    auto const& last = expression.code[expression.outputs[0]];
    if (last.op != ExprOp::Mul && last.op != ExprOp::Div) return edge;
    auto* x = expression.input(last.operands[0]);
    auto scale = expression.constant(last.operands[1]);
    if (last.op == ExprOp::Mul && !x)
        x = expression.input(last.operands[1]), scale = expression.constant(last.operands[0]);
    if (!x || !scale || x->value.shape != edge->value.shape) return edge;
    factor *= static_cast<float>(last.op == ExprOp::Mul ? *scale : 1 / *scale);
    return x;
}

EdgePtr Scores::edge_of(Expression const& made, Graph& graph, std::string const& name) const {
    if (made.outputs.empty()) return nullptr;
    if (auto* edge = made.input(made.outputs[0])) return edge;
    auto* node = graph.insert({name, make_operator(kernel::ElementwiseInfo{made.code, made.outputs})}, made.inputs);
    auto& value = node->output()->value;
    value = {name, product->value.dtype, {}, {}, nullptr, false};
    for (auto* input : made.inputs) {
        auto const& from = input->value.shape;
        auto& all = value.shape;
        while (all.size() < from.size()) all.insert(all.begin(), DimExpr(1));
        for (size_t i = 0; i < from.size(); ++i) {
            auto& size = all[all.size() - from.size() + i];
            size = broadcast(size, from[i]).value();
        }
    }
    return node->output();
}

bool Scores::are_factors_of(EdgePtr queries) const {
    constexpr size_t kAxes = 3;  // head, row and key, in matrices of any windows
    auto of_rows = [](EdgePtr edge) {
        auto const& from = edge->value.shape;
        return from.size() <= kAxes && (from.empty() || from.back() == DimExpr(1));
    };
    auto const &rows = queries->value.shape, &all = product->value.shape;
    return std::all_of(factors.inputs.begin(), factors.inputs.end(), of_rows) && rows.size() == kAxes + 1 &&
           all.size() == rows.size() && std::equal(rows.begin(), rows.end() - 1, all.begin());
}

EdgePtr Scores::multiplied(EdgePtr queries, Graph& graph) const {
    auto name = queries->value.name + ".scaled";
    auto* by = edge_of(factors, graph, name + ".factors");
    auto times = make_expression(ExprOp::Mul, queries->value.dtype, {queries, by});
    auto* node = graph.insert({name, make_operator(kernel::ElementwiseInfo{times.code, times.outputs})}, times.inputs);
    node->output()->value = {name, queries->value.dtype, queries->value.shape, {}, nullptr, false};
    auto* before = queries->producer();
    if (!before || before->outputs().size() != 1 || !is_private(queries) || queries->value.keep ||
        !info_of<kernel::ElementwiseInfo>(*before->value.op))
        return node->output();
    merge(before, node).store(graph, node);
    graph.erase(before);
    return node->output();
}

bool is_but_for_keys(Shape const& masked, Shape const& product) {
    if (masked.empty() || masked.size() != product.size()) return false;
    return std::equal(masked.begin(), masked.end() - 1, product.begin()) &&
           broadcast(masked.back(), product.back()) == masked.back();
}

std::optional<Scores> scores_of(EdgePtr edge) {
    edge = before_reshapes(edge);
    auto* node = edge->producer();
    if (!node || !is_private(edge)) return std::nullopt;
    Scores scores;
    scores.shape = edge->value.shape;
    if (info_of<kernel::MatMulInfo>(*node->value.op)) {
        scores.product = edge;
        return scores;
    }
    if (!info_of<kernel::ElementwiseInfo>(*node->value.op)) return std::nullopt;
    auto expression = program_of(node);
    auto* product = expression.outputs.size() == 1 ? product_in(expression) : nullptr;
    if (!product || !is_but_for_keys(scores.shape, product->value.shape)) return std::nullopt;
    scores.shape.back() = product->value.shape.back();
    scores.product = before_reshapes(product);
    if (!is_private(scores.product)) return std::nullopt;
    Matcher matcher(expression, product);
    if (!matcher.match(expression.outputs[0]) || !matcher.read(scores)) return std::nullopt;
    auto part = [&](std::optional<uint16_t> made, Expression& to) {
        if (!made) return true;
        to = expression, to.outputs = {*made};
        to.normalize();
        return !to.inputs.empty() && to.code[to.outputs[0]].dtype == product->value.dtype;
    };
    if (!part(matcher.mask, scores.mask) || !part(matcher.factors, scores.factors)) return std::nullopt;
    return scores;
}

}  // namespace refactor::computation
