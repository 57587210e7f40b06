#include "computation/operator.h"
#include "frontend/expression.h"
#include "frontend/text_labels.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "ops/ml_attributes.h"

// LinearClassifier, LinearRegressor: products whose scores are transformed and compared.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;
using kernel::PostTransform;
using Edge = LowerContext::Edge;

/// X · coefficientsᵀ + intercepts.
struct Linear {
    std::vector<float> coefficients;  ///< [targets, features]
    std::vector<float> intercepts;    ///< [targets] or empty
    int64_t targets = 1;
    PostTransform transform{};

    int64_t features() const { return static_cast<int64_t>(coefficients.size()) / targets; }
};

Inferred<Linear> check(Linear linear, NodeView const& n) {
    RG_TRY(transform, post_transform_of(n));
    linear.transform = transform;
    auto count = static_cast<int64_t>(linear.coefficients.size());
    if (linear.targets < 1 || count == 0 || count % linear.targets)
        return Err{invalid("coefficients has ", count, " elements, expected a multiple of ", linear.targets)};
    return linear;
}

Edge emit_scores(LowerContext& c, Linear const& linear) {
    kernel::MatMulInfo info;
    info.trans_b = true;
    auto* weights = c.floats(linear.coefficients, {linear.targets, linear.features()});
    Shape shape{rows_of(c.shape(0)), DimExpr(linear.targets)};
    auto* product = c.emit(computation::make_operator(info), {emit_table(c), weights}, DataType::F32, shape);
    if (linear.intercepts.empty()) return product;
    Expression e;
    auto sum = e.finish(e.binary(ExprOp::Add, e.input(0, DataType::F32), e.input(1, DataType::F32)));
    return c.emit(computation::make_operator(std::move(sum)), {product, c.floats(linear.intercepts, {linear.targets})},
                  DataType::F32, shape);
}

// ---------------------------------------------------------------------- LinearRegressor
Inferred<Linear> regressor_of(NodeView const& n) {
    Linear linear{list_of<float>(n, "coefficients"), list_of<float>(n, "intercepts"), n.integer("targets", 1)};
    if (!linear.intercepts.empty() && static_cast<int64_t>(linear.intercepts.size()) != linear.targets)
        return Err{invalid("intercepts has ", linear.intercepts.size(), " elements, expected ", linear.targets)};
    return check(std::move(linear), n);
}

Status infer_regressor(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_table(c));
    RG_TRY_STATUS(linear, regressor_of(n));
    RG_CHECK_STATUS(expect_columns(c, linear.features()));
    return c.set(0, DataType::F32, {rows_of(c.shape(0)), DimExpr(linear.targets)});
}

/// A single score is transformed by PROBIT only, as in onnxruntime.
Status lower_regressor(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(linear, regressor_of(n));
    auto* scores = emit_scores(c, linear);
    bool transformed = linear.targets > 1 || linear.transform == PostTransform::Probit;
    c.set_output(0, transformed ? emit_post_transform(c, scores, linear.transform) : scores);
    return std::nullopt;
}

// ---------------------------------------------------------------------- LinearClassifier
Inferred<Linear> classifier_of(NodeView const& n, ClassLabels const& labels) {
    Linear linear{list_of<float>(n, "coefficients"), list_of<float>(n, "intercepts")};
    auto classes = static_cast<int64_t>(labels.count());
    linear.targets = linear.intercepts.empty() ? classes : static_cast<int64_t>(linear.intercepts.size());
    bool binary = linear.targets == 1 && classes == 2;
    if (!binary && linear.targets != classes)
        return Err{invalid(classes, " class labels for ", linear.targets, " scores, expected ",
                           linear.targets == 1 ? 2 : linear.targets)};
    return check(std::move(linear), n);
}

Status infer_classifier(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_table(c));
    RG_TRY_STATUS(labels, class_labels_of(n, "classlabels_ints"));
    RG_TRY_STATUS(linear, classifier_of(n, labels));
    RG_CHECK_STATUS(expect_columns(c, linear.features()));
    auto rows = rows_of(c.shape(0));
    RG_CHECK_STATUS(c.set(0, labels.texts.empty() ? DataType::I64 : DataType::String, {rows}));
    return c.set(1, DataType::F32, {rows, DimExpr(static_cast<int64_t>(labels.count()))});
}

Status lower_classifier(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(labels, class_labels_of(n, "classlabels_ints"));
    RG_TRY_STATUS(linear, classifier_of(n, labels));
    auto* scores = emit_scores(c, linear);
    auto rows = rows_of(c.shape(0));
    Edge index;
    if (linear.targets == 1) {
        Expression e;
        auto hit = e.binary(ExprOp::Greater, e.input(0, DataType::F32), e.constant(DataType::F32, 0));
        auto* column = c.emit(computation::make_operator(e.finish(e.cast(hit, DataType::I64))), {scores}, DataType::I64,
                              {rows, DimExpr(1)});
        index = c.reshape(column, {rows});
        scores = emit_binary_scores(c, scores, linear.transform, true);
    } else {
        kernel::ArgReduceInfo info;
        info.axis = 1;
        index = c.emit(computation::make_operator(info), {scores}, DataType::I64, {rows});
        scores = emit_post_transform(c, scores, linear.transform);
    }
    c.set_output(0, emit_labels(c, index, labels));
    c.set_output(1, scores);
    return std::nullopt;
}

Inferred<frontend::ProcedurePtr> classifier_procedure(frontend::ProcedureContext const& p, NodeView const& n) {
    RG_TRY(labels, class_labels_of(n, "classlabels_ints"));
    return frontend::make_text_labels(with_positions(n, infer_classifier, lower_classifier), labels.texts, p);
}

}  // namespace

void define_ml_linear(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "LinearRegressor",
                   .types = {{kMlNumbers}},
                   .attributes = {{"coefficients", K::Floats},
                                  {"intercepts", K::Floats},
                                  {"post_transform", K::String},
                                  {"targets", K::Int}},
                   .infer = infer_regressor,
                   .lower = lower_regressor,
                   .domain = kMlDomain});
    all.push_back({.name = "LinearClassifier",
                   .outputs = {2, 2},
                   .types = {{kMlNumbers}},
                   .attributes = {{"classlabels_ints", K::Ints},
                                  {"classlabels_strings", K::Strings},
                                  {"coefficients", K::Floats, true},
                                  {"intercepts", K::Floats},
                                  {"multi_class", K::Int},
                                  {"post_transform", K::String}},
                   .infer = infer_classifier,
                   .lower = lower_classifier,
                   .domain = kMlDomain,
                   .procedure = classifier_procedure,
                   .is_procedure = has_text_labels});
}

}  // namespace refactor::onnx
