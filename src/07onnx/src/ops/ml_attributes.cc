#include "ops/ml_attributes.h"

#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;
using kernel::PostTransform;
using Edge = LowerContext::Edge;
using Value = Expression::Value;

class WithPositions final : public frontend::Operator {
    NodeView const& node_;
    InferFunction infer_;
    LowerFunction lower_;

public:
    WithPositions(NodeView const& node, InferFunction infer_function, LowerFunction lower_function)
        : node_(node), infer_(infer_function), lower_(lower_function) {}
    std::string_view type() const override { return node_.op_type; }
    std::string describe() const override { return std::string(node_.op_type); }
    Status infer(InferContext& c) const override {
        RG_CHECK_STATUS(infer_(c, node_));
        return c.set(0, DataType::I64, {rows_of(c.shape(0))});
    }
    Status lower(LowerContext& c) const override { return lower_(c, node_); }
};

/// Winitzki's approximation of the inverse error function, with onnxruntime's constants.
Value probit(Expression& e, Value p) {
    auto number = [&](double value) { return e.constant(DataType::F32, value); };
    auto x = e.binary(ExprOp::Sub, e.binary(ExprOp::Mul, p, number(2)), number(1));
    auto product = e.binary(ExprOp::Mul, e.binary(ExprOp::Sub, number(1), x), e.binary(ExprOp::Add, number(1), x));
    auto log = e.unary(ExprOp::Log, product);
    auto half = e.binary(ExprOp::Add, number(2 / (3.14159 * 0.147)), e.binary(ExprOp::Mul, log, number(0.5)));
    auto inner = e.binary(ExprOp::Sub, e.binary(ExprOp::Mul, half, half), e.binary(ExprOp::Div, log, number(0.147)));
    auto root = e.unary(ExprOp::Sqrt, e.binary(ExprOp::Sub, e.unary(ExprOp::Sqrt, inner), half));
    auto is_negative = e.binary(ExprOp::Less, x, number(0));
    return e.binary(ExprOp::Mul, number(1.41421356), e.select(is_negative, e.unary(ExprOp::Neg, root), root));
}

Edge emit_softmax_zero(LowerContext& c, Edge scores) {
    auto const shape = scores->value.shape;
    Shape const column{shape[0], DimExpr(1)};
    auto reduce = [&](kernel::ReduceKind kind, Edge x) {
        return c.emit(computation::make_operator(kernel::ReduceInfo{kind, {1}}), {x}, DataType::F32, column);
    };
    auto* largest = reduce(kernel::ReduceKind::Max, scores);
    // Where a score is zero, what is written does not count in the sum.
    auto part = [&](bool counted) {
        Expression e;
        auto x = e.input(0, DataType::F32), most = e.input(1, DataType::F32);
        auto is_zero = e.binary(ExprOp::LessEqual, e.unary(ExprOp::Abs, x), e.constant(DataType::F32, 1e-7));
        auto power = e.unary(ExprOp::Exp, e.binary(ExprOp::Sub, x, most));
        auto other = counted ? e.constant(DataType::F32, 0)
                             : e.binary(ExprOp::Mul, x, e.unary(ExprOp::Exp, e.unary(ExprOp::Neg, most)));
        auto info = e.finish(e.select(is_zero, other, power));
        return c.emit(computation::make_operator(std::move(info)), {scores, largest}, DataType::F32, shape);
    };
    auto* sum = reduce(kernel::ReduceKind::Sum, part(true));
    Expression e;
    auto info = e.finish(e.binary(ExprOp::Div, e.input(0, DataType::F32), e.input(1, DataType::F32)));
    return c.emit(computation::make_operator(std::move(info)), {part(false), sum}, DataType::F32, shape);
}

}  // namespace

std::shared_ptr<frontend::Operator const> with_positions(NodeView const& node, InferFunction infer,
                                                         LowerFunction lower) {
    return std::make_shared<WithPositions>(node, infer, lower);
}

Edge emit_post_transform(LowerContext& c, Edge scores, PostTransform transform) {
    if (transform == PostTransform::None) return scores;
    if (transform == PostTransform::SoftmaxZero) return emit_softmax_zero(c, scores);
    auto shape = scores->value.shape;
    if (transform == PostTransform::Softmax) {
        kernel::SoftmaxInfo info;
        info.axis = 1;
        return c.emit(computation::make_operator(info), {scores}, DataType::F32, shape);
    }
    Expression e;
    auto x = e.input(0, DataType::F32);
    auto y = transform == PostTransform::Logistic ? e.unary(ExprOp::Sigmoid, x) : probit(e, x);
    return c.emit(computation::make_operator(e.finish(y)), {scores}, DataType::F32, shape);
}

Edge emit_binary_scores(LowerContext& c, Edge score, PostTransform transform, bool complement) {
    Shape shape{score->value.shape[0], DimExpr(2)};
    // Column j is a[j] * x + b[j].
    std::vector<float> factors{-1, 1}, offsets{1, 0};
    Expression e;
    auto y = e.binary(ExprOp::Mul, e.input(0, DataType::F32), e.input(1, DataType::F32));
    std::vector<Edge> edges{score, c.floats(factors, {2})};
    if (transform == PostTransform::Logistic) {
        y = e.unary(ExprOp::Sigmoid, y);
    } else {
        if (complement)
            y = e.binary(ExprOp::Add, y, e.input(2, DataType::F32)), edges.push_back(c.floats(offsets, {2}));
        if (transform == PostTransform::Probit) y = probit(e, y);
    }
    return c.emit(computation::make_operator(e.finish(y)), edges, DataType::F32, std::move(shape));
}

Edge emit_labels(LowerContext& c, Edge index, ClassLabels const& labels) {
    if (!labels.texts.empty()) return index;
    auto const& numbers = labels.numbers;
    auto* list = c.constant(DataType::I64, {static_cast<int64_t>(numbers.size())},
                            mem_manager::Blob::copy_of(numbers.data(), numbers.size() * sizeof(int64_t)));
    auto shape = index->value.shape;
    return c.emit(computation::make_operator(kernel::GatherInfo{0}), {list, index}, DataType::I64, std::move(shape));
}

Edge emit_table(LowerContext& c) {
    auto const& x = c.shape(0);
    return c.reshape(c.cast(c.edge(0), DataType::F32), {rows_of(x), x.back()});
}

}  // namespace refactor::onnx
