#include "contrib_parts.h"

#include "computation/operator.h"
#include "frontend/expression.h"

#include <algorithm>
#include <cmath>

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using frontend::Expression;
using kernel::ExprOp;

/// What an integer mask adds to the scores: `filter` where a key is masked. [B, T], [B, S, T], or [B] (lengths) or [2
/// B] (ends, then begins).
Inferred<Edge> padding_bias(LowerContext& c, size_t input, AttentionParts const& p, float filter) {
    auto const& shape = c.shape(input);
    auto const &batch = p.q->value.shape[0], &queries = p.q->value.shape[2], &keys = p.k->value.shape[2];
    auto* mask = c.edge(input);
    Expression e;
    auto zero = e.constant(DataType::F32, 0), masked = e.constant(DataType::F32, static_cast<double>(filter));
    auto none = e.constant(DataType::I32, 0);
    if (shape.size() == 2 || shape.size() == 3) {
        auto value = e.select(e.binary(ExprOp::Equal, e.input(0, DataType::I32), none), masked, zero);
        Shape full{batch, 1, shape.size() == 3 ? queries : DimExpr(1), keys};
        return c.emit(computation::make_operator(e.finish(value)), {c.reshape(mask, full)}, DataType::F32, full);
    }
    if (shape.size() != 1) return Err{unsupported("a mask with ", shape.size(), " axes")};
    Shape column{batch, 1, 1, 1}, full{batch, 1, 1, keys};
    std::vector<Edge> edges{c.cast(emit_range(c, 0, keys), DataType::I32)};
    auto at = e.input(0, DataType::I32);
    auto hidden = e.binary(ExprOp::GreaterEqual, at, e.input(1, DataType::I32));
    if (shape[0] == batch) {
        edges.push_back(c.reshape(mask, column));
    } else if (shape[0] == batch * 2) {
        for (int64_t i = 0; i < 2; ++i) edges.push_back(c.reshape(emit_slice(c, mask, 0, batch * i, batch), column));
        hidden = e.binary(ExprOp::Or, hidden, e.binary(ExprOp::Less, at, e.input(2, DataType::I32)));
    } else {
        return Err{unsupported("a mask of ", shape[0].to_string(c.symbols()), " numbers for ",
                               batch.to_string(c.symbols()), " sequences")};
    }
    return c.emit(computation::make_operator(e.finish(e.select(hidden, masked, zero))), edges, DataType::F32, full);
}

Inferred<Edge> add_biases(LowerContext& c, Edge a, Edge b) {
    if (!a || !b) return a ? a : b;
    a = c.cast(a, DataType::F32), b = c.cast(b, DataType::F32);
    RG_TRY(shape, frontend::broadcast_shapes({a->value.shape, b->value.shape}, c.symbols()));
    Expression e;
    auto sum = e.binary(ExprOp::Add, e.input(0, DataType::F32), e.input(1, DataType::F32));
    return c.emit(computation::make_operator(e.finish(sum)), {a, b}, DataType::F32, shape);
}

constexpr NamedActivation kActivations[]{
    {"Elu", ExprOp::Elu, 1},
    {"HardSigmoid", ExprOp::HardSigmoid, 0.2f, 0.5f},
    {"LeakyRelu", ExprOp::LeakyRelu, 0.01f},
    {"Relu", ExprOp::Relu},
    {"Selu", ExprOp::Selu, 1.67326319217681884765625f, 1.05070102214813232421875f},
    {"Sigmoid", ExprOp::Sigmoid},
    {"Softplus", ExprOp::Softplus},
    {"Softsign", ExprOp::Softsign},
    {"Tanh", ExprOp::Tanh},
    {"ThresholdedRelu", ExprOp::ThresholdedRelu, 1},
};

}  // namespace

NamedActivation const* activation_of(NodeView const& n) {
    auto* found = std::find_if(std::begin(kActivations), std::end(kActivations),
                               [&](auto const& a) { return a.name == n.text("activation", ""); });
    return found == std::end(kActivations) ? nullptr : found;
}

Edge add_edges(LowerContext& c, Edge x, Edge other) {
    Expression e;
    auto dtype = x->value.dtype;
    auto sum = e.binary(ExprOp::Add, e.input(0, dtype), e.input(1, dtype));
    return c.emit(computation::make_operator(e.finish(sum)), {x, other}, dtype, x->value.shape);
}

Edge add_indices(LowerContext& c, Edge a, Edge b, Shape shape) {
    Expression e;
    auto sum = e.binary(ExprOp::Add, e.input(0, DataType::I64), e.input(1, DataType::I64));
    return c.emit(computation::make_operator(e.finish(sum)), {a, b}, DataType::I64, std::move(shape));
}

bool asks_for(LowerContext const& c, size_t i) { return i < c.output_count() && !c.output(i).name.empty(); }

Inferred<float> scale_of(NodeView const& n, DimExpr const& depth) {
    if (auto scale = n.number("scale", 0); scale != 0) return scale;
    auto known = depth.constant();
    if (!known) return Err{unsupported("heads of a size that is not known")};
    return static_cast<float>(1 / std::sqrt(static_cast<double>(*known)));
}

Status set_masks(LowerContext& c, NodeView const& n, size_t mask, size_t bias, AttentionParts& p) {
    Edge padding = nullptr;
    if (c.has(mask)) {
        RG_TRY_STATUS(made, padding_bias(c, mask, p, n.number("mask_filter_value", -10000)));
        padding = made;
    }
    RG_TRY_STATUS(all, add_biases(c, padding, c.edge(bias)));
    p.mask = all;
    return std::nullopt;
}

Status check_masks(InferContext& c, size_t mask, size_t bias, Shape const& scores) {
    if (c.has(mask)) {
        auto const& shape = c.shape(mask);
        if (shape.size() == 2 || shape.size() == 3) {
            RG_CHECK_STATUS(c.expect_equal(shape[0], scores[0], "the batch of the mask"));
            RG_CHECK_STATUS(c.expect_equal(shape.back(), scores[3], "the number of keys of the mask"));
            if (shape.size() == 3)
                RG_CHECK_STATUS(c.expect_equal(shape[1], scores[2], "the number of queries of the mask"));
        }
    }
    if (!c.has(bias)) return std::nullopt;
    RG_CHECK_STATUS(expect_rank(c.input(bias), 4, 4));
    RG_TRY_STATUS(joined, frontend::broadcast_shapes({scores, c.shape(bias)}, c.symbols()));
    for (size_t i = 0; i < 4; ++i) RG_CHECK_STATUS(c.expect_equal(joined[i], scores[i], "a size of attention_bias"));
    return std::nullopt;
}

}  // namespace refactor::onnx
