#include "computation/operator.h"
#include "frontend/expression.h"
#include "frontend/text_labels.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/reduce.h"
#include "kernel/ops/svm.h"
#include "ops/ml_attributes.h"

#include <algorithm>
#include <numeric>

// SVMClassifier, SVMRegressor.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;
using kernel::PostTransform;
using Edge = LowerContext::Edge;

enum class KernelType : uint8_t { Linear, Poly, Rbf, Sigmoid };

/// A function of a row and each of `rows` support vectors.
struct VectorKernel {
    KernelType type{};
    double gamma = 0, coef0 = 0, degree = 0;
    std::vector<float> vectors;  ///< [rows, features]
    int64_t rows = 0;

    int64_t features() const { return static_cast<int64_t>(vectors.size()) / rows; }
};

Inferred<VectorKernel> kernel_of(NodeView const& n, std::vector<float> vectors, int64_t rows) {
    constexpr std::string_view kNames[]{"LINEAR", "POLY", "RBF", "SIGMOID"};
    auto name = n.text("kernel_type", "LINEAR");
    auto* found = std::find(std::begin(kNames), std::end(kNames), name);
    if (found == std::end(kNames))
        return Err{invalid("kernel_type is \"", name, "\", expected LINEAR, POLY, RBF or SIGMOID")};
    VectorKernel k;
    k.type = static_cast<KernelType>(found - kNames);
    auto params = list_of<float>(n, "kernel_params");
    if (!params.empty()) {
        if (params.size() != 3)
            return Err{invalid("kernel_params has ", params.size(), " elements, expected 3: gamma, coef0, degree")};
        k.gamma = static_cast<double>(params[0]), k.coef0 = static_cast<double>(params[1]);
        k.degree = static_cast<double>(params[2]);
    }
    auto count = static_cast<int64_t>(vectors.size());
    if (rows < 1 || count == 0 || count % rows)
        return Err{invalid(count, " elements of support vectors, expected a multiple of ", rows)};
    k.vectors = std::move(vectors), k.rows = rows;
    return k;
}

/// [N, rows] f32.
Edge emit_kernel(LowerContext& c, VectorKernel const& k) {
    auto* x = emit_table(c);
    auto* vectors = c.floats(k.vectors, {k.rows, k.features()});
    Shape shape{x->value.shape[0], DimExpr(k.rows)};
    Edge values;
    if (k.type == KernelType::Rbf) {
        values = c.emit(computation::make_operator(kernel::SquaredDistanceInfo{}), {x, vectors}, DataType::F32, shape);
    } else {
        kernel::MatMulInfo info;
        info.trans_b = true;
        values = c.emit(computation::make_operator(info), {x, vectors}, DataType::F32, shape);
    }
    if (k.type == KernelType::Linear) return values;
    Expression e;
    auto number = [&](double value) { return e.constant(DataType::F32, value); };
    auto y = e.input(0, DataType::F32);
    if (k.type == KernelType::Rbf) {
        y = e.unary(ExprOp::Exp, e.binary(ExprOp::Mul, y, number(-k.gamma)));
    } else {
        y = e.binary(ExprOp::Add, e.binary(ExprOp::Mul, y, number(k.gamma)), number(k.coef0));
        y = k.type == KernelType::Sigmoid ? e.unary(ExprOp::Tanh, y) : e.binary(ExprOp::Pow, y, number(k.degree));
    }
    return c.emit(computation::make_operator(e.finish(y)), {values}, DataType::F32, std::move(shape));
}

Edge add_scalar(LowerContext& c, Edge x, float value) {
    Expression e;
    auto sum = e.binary(ExprOp::Add, e.input(0, DataType::F32), e.constant(DataType::F32, static_cast<double>(value)));
    auto shape = x->value.shape;
    return c.emit(computation::make_operator(e.finish(sum)), {x}, DataType::F32, std::move(shape));
}

// ---------------------------------------------------------------------- SVMRegressor
struct Regressor {
    VectorKernel kernel;
    std::vector<float> coefficients;  ///< of the support vectors; empty: the kernel value is the score
    float rho = 0;
    bool one_class = false;
};

Inferred<Regressor> regressor_of(NodeView const& n) {
    auto coefficients = list_of<float>(n, "coefficients"), rho = list_of<float>(n, "rho");
    auto supports = n.integer("n_supports", 0);
    if (rho.empty()) return Err{invalid("rho is empty, expected one element")};
    RG_TRY(transform, post_transform_of(n));
    Regressor r;
    r.rho = rho[0], r.one_class = n.integer("one_class", 0) != 0;
    if (supports > 0) {
        RG_TRY(kernel, kernel_of(n, list_of<float>(n, "support_vectors"), supports));
        if (static_cast<int64_t>(coefficients.size()) != supports)
            return Err{invalid("coefficients has ", coefficients.size(), " elements, expected ", supports)};
        r.kernel = kernel, r.coefficients = coefficients;
    } else {
        RG_TRY(kernel, kernel_of(n, coefficients, 1));
        r.kernel = kernel, r.kernel.type = KernelType::Linear;
    }
    return r;
}

Status infer_regressor(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_table(c));
    RG_TRY_STATUS(r, regressor_of(n));
    RG_CHECK_STATUS(expect_columns(c, r.kernel.features()));
    return c.set(0, DataType::F32, {rows_of(c.shape(0)), DimExpr(1)});
}

/// The transform is ignored, as in onnxruntime: there is one score.
Status lower_regressor(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(r, regressor_of(n));
    auto* y = emit_kernel(c, r.kernel);
    Shape shape{rows_of(c.shape(0)), DimExpr(1)};
    if (!r.coefficients.empty())
        y = c.emit(computation::make_operator(kernel::MatMulInfo{}),
                   {y, c.floats(r.coefficients, {static_cast<int64_t>(r.coefficients.size()), 1})}, DataType::F32,
                   shape);
    y = add_scalar(c, y, r.rho);
    if (r.one_class) {
        Expression e;
        auto number = [&](double value) { return e.constant(DataType::F32, value); };
        auto inside = e.binary(ExprOp::Greater, e.input(0, DataType::F32), number(0));
        auto info = e.finish(e.select(inside, number(1), number(-1)));
        y = c.emit(computation::make_operator(std::move(info)), {y}, DataType::F32, shape);
    }
    c.set_output(0, y);
    return std::nullopt;
}

// ---------------------------------------------------------------------- SVMClassifier
struct Classifier {
    ClassLabels labels;
    VectorKernel kernel;
    kernel::SvmVotesInfo info;  ///< no vectors: the kernel values are the scores
    std::vector<float> coefficients, rho, a, b;
    bool positive_weights = false;  ///< no coefficient is negative
};

Status check_pairs(std::vector<float> const& list, kernel::SvmVotesInfo const& info, std::string_view name) {
    if (static_cast<int64_t>(list.size()) >= info.pairs()) return std::nullopt;
    return invalid(name, " has ", list.size(), " elements, expected ", info.pairs(), ", one for each pair of classes");
}

Inferred<Classifier> classifier_of(NodeView const& n) {
    Classifier s;
    RG_TRY(labels, class_labels_of(n, "classlabels_ints"));
    RG_TRY(transform, post_transform_of(n));
    s.labels = labels, s.info.transform = transform;
    s.coefficients = list_of<float>(n, "coefficients"), s.rho = list_of<float>(n, "rho");
    s.a = list_of<float>(n, "prob_a"), s.b = list_of<float>(n, "prob_b");
    s.positive_weights = std::none_of(s.coefficients.begin(), s.coefficients.end(), [](float x) { return x < 0; });
    auto counts = n.integers("vectors_per_class");
    auto total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    auto classes = static_cast<int64_t>(labels.count());
    if (s.rho.empty()) return Err{invalid("rho is empty, expected at least one element")};
    if (total <= 0) {
        RG_TRY(kernel, kernel_of(n, s.coefficients, classes));
        s.kernel = kernel, s.kernel.type = KernelType::Linear;
        return s;
    }
    if (static_cast<int64_t>(counts.size()) != classes || classes < 2 ||
        std::any_of(counts.begin(), counts.end(), [](auto count) { return count < 0; }))
        return Err{invalid("vectors_per_class has ", counts.size(), " elements, expected at least 2, one for each of ",
                           classes, " classes, none negative")};
    s.info.vectors.assign(counts.begin(), counts.end());
    RG_TRY(kernel, kernel_of(n, list_of<float>(n, "support_vectors"), total));
    s.kernel = kernel, s.info.probabilities = !s.a.empty();
    if (s.a.size() != s.b.size())
        return Err{invalid("prob_b has ", s.b.size(), " elements, expected ", s.a.size(), " as prob_a")};
    if (static_cast<int64_t>(s.coefficients.size()) != (classes - 1) * total)
        return Err{invalid("coefficients has ", s.coefficients.size(), " elements, expected ", (classes - 1) * total)};
    if (auto failure = check_pairs(s.rho, s.info, "rho")) return Err{*failure};
    if (s.info.probabilities)
        if (auto failure = check_pairs(s.a, s.info, "prob_a")) return Err{*failure};
    return s;
}

Status infer_classifier(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_table(c));
    RG_TRY_STATUS(s, classifier_of(n));
    RG_CHECK_STATUS(expect_columns(c, s.kernel.features()));
    auto rows = rows_of(c.shape(0));
    auto scores = s.info.vectors.empty() ? static_cast<int64_t>(s.labels.count()) : s.info.scores();
    RG_CHECK_STATUS(c.set(0, s.labels.texts.empty() ? DataType::I64 : DataType::String, {rows}));
    return c.set(1, DataType::F32, {rows, DimExpr(scores)});
}

/// Scores that are products: the greatest one wins; of two classes the second one does if any score is large enough.
Status lower_scores(LowerContext& c, Classifier const& s) {
    auto* scores = add_scalar(c, emit_kernel(c, s.kernel), s.rho[0]);
    auto rows = rows_of(c.shape(0));
    kernel::ArgReduceInfo best;
    best.axis = 1;
    auto* index = c.emit(computation::make_operator(best), {scores}, DataType::I64, {rows});
    if (s.labels.count() == 2) {
        auto* most = c.emit(computation::make_operator(kernel::ReduceInfo{kernel::ReduceKind::Max, {1}}), {scores},
                            DataType::F32, {rows});
        Expression e;
        auto limit = e.constant(DataType::F32, s.positive_weights ? 0.5 : 0);
        auto hit =
            e.binary(s.positive_weights ? ExprOp::GreaterEqual : ExprOp::Greater, e.input(0, DataType::F32), limit);
        auto y = e.select(hit, e.constant(DataType::I64, 1), e.input(1, DataType::I64));
        index = c.emit(computation::make_operator(e.finish(y)), {most, index}, DataType::I64, {rows});
    }
    c.set_output(0, emit_labels(c, index, s.labels));
    bool transformed = s.labels.count() > 1 || s.info.transform == PostTransform::Probit;
    c.set_output(1, transformed ? emit_post_transform(c, scores, s.info.transform) : scores);
    return std::nullopt;
}

Status lower_classifier(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(s, classifier_of(n));
    if (s.info.vectors.empty()) return lower_scores(c, s);
    auto labels = s.labels.numbers;
    for (size_t i = 0; i < s.labels.texts.size(); ++i) labels.push_back(static_cast<int64_t>(i));
    Dims classes{static_cast<int64_t>(labels.size())}, pairs{s.info.pairs()};
    auto* list =
        c.constant(DataType::I64, classes, mem_manager::Blob::copy_of(labels.data(), labels.size() * sizeof(int64_t)));
    auto cut = [&](std::vector<float> values) {
        values.resize(static_cast<size_t>(s.info.pairs()));
        return c.floats(values, pairs);
    };
    auto* values = emit_kernel(c, s.kernel);
    std::vector<Edge> edges{values, c.floats(s.coefficients, {classes[0] - 1, s.kernel.rows}), cut(s.rho), list};
    if (s.info.probabilities) edges.push_back(cut(s.a)), edges.push_back(cut(s.b));
    auto rows = rows_of(c.shape(0));
    auto results = c.emit_all(computation::make_operator(s.info), edges,
                              {{DataType::F32, *c.output(1).shape}, {DataType::I64, {rows}}});
    c.set_output(0, results[1]), c.set_output(1, results[0]);
    return std::nullopt;
}

Inferred<frontend::ProcedurePtr> classifier_procedure(frontend::ProcedureContext const& p, NodeView const& n) {
    RG_TRY(labels, class_labels_of(n, "classlabels_ints"));
    return frontend::make_text_labels(with_positions(n, infer_classifier, lower_classifier), labels.texts, p);
}

}  // namespace

void define_ml_svm(Definitions& all) {
    using K = AttributeKind;
    std::vector<AttributeDef> common{{"coefficients", K::Floats}, {"kernel_params", K::Floats},
                                     {"kernel_type", K::String},  {"post_transform", K::String},
                                     {"rho", K::Floats},          {"support_vectors", K::Floats}};
    OperatorDef regressor{.name = "SVMRegressor",
                          .types = {{kMlNumbers}},
                          .attributes = common,
                          .infer = infer_regressor,
                          .lower = lower_regressor,
                          .domain = kMlDomain};
    regressor.attributes.insert(regressor.attributes.end(), {{"n_supports", K::Int}, {"one_class", K::Int}});
    all.push_back(std::move(regressor));
    OperatorDef classifier{.name = "SVMClassifier",
                           .outputs = {2, 2},
                           .types = {{kMlNumbers}},
                           .attributes = std::move(common),
                           .infer = infer_classifier,
                           .lower = lower_classifier,
                           .domain = kMlDomain,
                           .procedure = classifier_procedure,
                           .is_procedure = has_text_labels};
    classifier.attributes.insert(classifier.attributes.end(), {{"classlabels_ints", K::Ints},
                                                               {"classlabels_strings", K::Strings},
                                                               {"prob_a", K::Floats},
                                                               {"prob_b", K::Floats},
                                                               {"vectors_per_class", K::Ints}});
    all.push_back(std::move(classifier));
}

}  // namespace refactor::onnx
