#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "operator_def.h"

// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: the picked log-probabilities, weighted, and their mean or sum.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::Expression;
using kernel::ExprOp;
using Edge = LowerContext::Edge;

enum class Reduction : uint8_t { None, Sum, Mean };

Inferred<Reduction> reduction_of(NodeView const& n) {
    auto name = n.text("reduction", "mean");
    if (name == "none") return Reduction::None;
    if (name == "sum") return Reduction::Sum;
    if (name == "mean") return Reduction::Mean;
    return Err{invalid("reduction is \"", name, "\", expected none, sum or mean")};
}

Status infer_loss(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(reduction, reduction_of(n));
    auto const &x = c.shape(0), &labels = c.shape(1);
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 2, InferContext::kMaxRank));
    RG_CHECK_STATUS(frontend::expect_rank(c.input(1), x.size() - 1, x.size() - 1));
    for (size_t i = 0; i < labels.size(); ++i)
        RG_CHECK_STATUS(c.expect_equal(labels[i], x[i ? i + 1 : 0], frontend::concat("size ", i, " of the labels")));
    if (c.has(2)) {
        RG_CHECK_STATUS(frontend::expect_rank(c.input(2), 1, 1));
        RG_CHECK_STATUS(c.expect_equal(c.shape(2)[0], x[1], "the number of weights"));
    }
    RG_CHECK_STATUS(c.set(0, c.dtype(0), reduction == Reduction::None ? labels : Shape{}));
    return c.set(1, c.dtype(0), x);
}

/// What is known of the labels: which are ignored, and the others.
struct Labels {
    Edge ignored = nullptr;  ///< bool; null: none
    Edge used;               ///< 0 where ignored
};

Labels labels_of(LowerContext& c, NodeView const& n) {
    Labels labels{nullptr, c.edge(1)};
    auto* ignore = n.get<int64_t>("ignore_index");
    if (!ignore) return labels;
    auto dtype = c.dtype(1);
    Expression mask, picked;
    auto same = mask.binary(ExprOp::Equal, mask.input(0, dtype), mask.integer(dtype, *ignore));
    labels.ignored = c.emit(computation::make_operator(mask.finish(same)), {c.edge(1)}, DataType::Bool, c.shape(1));
    auto kept = picked.select(picked.input(1, DataType::Bool), picked.integer(dtype, 0), picked.input(0, dtype));
    labels.used =
        c.emit(computation::make_operator(picked.finish(kept)), {c.edge(1), labels.ignored}, dtype, c.shape(1));
    return labels;
}

/// Weight of every sample, zero where it is ignored; null if all are 1.
Edge sample_weights(LowerContext& c, Labels const& labels) {
    auto dtype = c.dtype(0);
    if (!c.has(2) && !labels.ignored) return nullptr;
    auto* weights = c.has(2) ? c.emit(computation::make_operator(kernel::GatherInfo{0}), {c.edge(2), labels.used},
                                      dtype, c.shape(1))
                             : c.scalar(dtype, 1);
    if (!labels.ignored) return weights;
    Expression e;
    auto value = e.select(e.input(1, DataType::Bool), e.constant(dtype, 0), e.input(0, dtype));
    return c.emit(computation::make_operator(e.finish(value)), {weights, labels.ignored}, dtype, c.shape(1));
}

Edge total(LowerContext& c, Edge edge, kernel::ReduceKind kind) {
    Dims axes;
    for (size_t i = 0; i < c.shape(1).size(); ++i) axes.push_back(static_cast<int64_t>(i));
    return c.emit(computation::make_operator(kernel::ReduceInfo{kind, axes}), {edge}, c.dtype(0), {});
}

/// `log_probabilities`: [N, C, d…].
Status lower_likelihood(LowerContext& c, NodeView const& n, Edge log_probabilities) {
    RG_TRY_STATUS(reduction, reduction_of(n));
    auto dtype = c.dtype(0);
    auto labels = labels_of(c, n);
    auto positions = c.shape(0);
    positions[1] = 1;
    auto* picked = c.emit(computation::make_operator(kernel::GatherElementsInfo{1}),
                          {log_probabilities, c.reshape(labels.used, positions)}, dtype, positions);
    picked = c.reshape(picked, c.shape(1));
    auto* weights = sample_weights(c, labels);
    Expression e;
    auto loss = e.unary(ExprOp::Neg, e.input(0, dtype));
    std::vector<Edge> edges{picked};
    if (weights) {
        auto weight = e.input(1, dtype);
        loss = e.binary(ExprOp::Mul, loss, weight), edges.push_back(weights);
        // An ignored sample counts nothing, even if its log-probability is infinite.
        if (labels.ignored) loss = e.select(e.input(2, DataType::Bool), e.constant(dtype, 0), loss);
        if (labels.ignored) edges.push_back(labels.ignored);
    }
    auto* losses = c.emit(computation::make_operator(e.finish(loss)), edges, dtype, c.shape(1));
    if (reduction == Reduction::None)
        c.set_output(0, losses);
    else if (reduction == Reduction::Sum)
        c.set_output(0, total(c, losses, kernel::ReduceKind::Sum));
    else if (!weights)
        c.set_output(0, total(c, losses, kernel::ReduceKind::Mean));
    else {
        Expression ratio;
        auto value = ratio.binary(ExprOp::Div, ratio.input(0, dtype), ratio.input(1, dtype));
        c.emit_output(computation::make_operator(ratio.finish(value)),
                      {total(c, losses, kernel::ReduceKind::Sum), total(c, weights, kernel::ReduceKind::Sum)});
    }
    return std::nullopt;
}

Status lower_nll(LowerContext& c, NodeView const& n) { return lower_likelihood(c, n, c.edge(0)); }

Status lower_cross_entropy(LowerContext& c, NodeView const& n) {
    kernel::SoftmaxInfo info;
    info.axis = 1, info.log = true;
    auto* log_probabilities = c.emit(computation::make_operator(info), {c.edge(0)}, c.dtype(0), c.shape(0));
    if (c.output_count() > 1) c.set_output(1, log_probabilities);
    return lower_likelihood(c, n, log_probabilities);
}

}  // namespace

void define_loss(Definitions& all) {
    using K = AttributeKind;
    OperatorDef def{.name = "NegativeLogLikelihoodLoss",
                    .since = 12,
                    .inputs = {2, 3},
                    .types = {{kFloats, 'T'}, {kIndices}, {kFloats, 'T'}},
                    .attributes = {{"ignore_index", K::Int}, {"reduction", K::String}},
                    .infer = infer_loss,
                    .lower = lower_nll};
    all.push_back(def);
    def.name = "SoftmaxCrossEntropyLoss", def.outputs = {1, 2}, def.lower = lower_cross_entropy;
    all.push_back(std::move(def));
}

}  // namespace refactor::onnx
