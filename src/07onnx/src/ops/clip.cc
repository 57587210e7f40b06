#include "computation/operator.h"
#include "frontend/expression.h"
#include "operator_def.h"

#include <limits>

// Clip: bounds are attributes before opset 11, inputs since.

namespace refactor::onnx {

namespace {

using frontend::Expression;

Status infer_clip(InferContext& c, NodeView const&) {
    for (size_t i = 1; i < 3; ++i)
        if (c.has(i) && !c.shape(i).empty() && !(c.shape(i).size() == 1 && c.shape(i)[0] == DimExpr(1)))
            return invalid("the bound \"", c.input(i).name, "\" has the shape ", c.text(c.shape(i)),
                           ", expected a scalar");
    return c.set(0, c.dtype(0), c.shape(0));
}

void emit(LowerContext& c, Expression& e, Expression::Value x, std::optional<Expression::Value> low,
          std::optional<Expression::Value> high, std::vector<LowerContext::Edge> const& edges) {
    auto result = low && high ? e.clip(x, *low, *high)
                  : low       ? e.binary(kernel::ExprOp::Max, x, *low)
                  : high      ? e.binary(kernel::ExprOp::Min, x, *high)
                              : x;
    if (result == x)
        c.set_output(0, c.edge(0));
    else
        c.emit_output(computation::make_operator(e.finish(result)), edges);
}

Status lower_clip_6(LowerContext& c, NodeView const& n) {
    Expression e;
    auto x = e.input(0, c.dtype(0));
    std::optional<Expression::Value> low, high;
    // The defaults of opset 6 make infinities finite; those of f16 are infinite.
    constexpr float kMost = std::numeric_limits<float>::max();
    bool bounded = n.opset >= 6;
    if (bounded || n.has("min")) low = e.constant(c.dtype(0), n.number("min", -kMost));
    if (bounded || n.has("max")) high = e.constant(c.dtype(0), n.number("max", kMost));
    emit(c, e, x, low, high, {c.edge(0)});
    return std::nullopt;
}

Status lower_clip_11(LowerContext& c, NodeView const&) {
    Expression e;
    std::vector<LowerContext::Edge> edges{c.edge(0)};
    auto x = e.input(0, c.dtype(0));
    std::optional<Expression::Value> bounds[2];
    for (size_t i = 1; i < 3; ++i) {
        if (!c.has(i)) continue;
        bounds[i - 1] = e.input(static_cast<uint16_t>(edges.size()), c.dtype(0));
        edges.push_back(c.reshape(c.edge(i), {}));
    }
    emit(c, e, x, bounds[0], bounds[1], edges);
    return std::nullopt;
}

}  // namespace

void define_clip(Definitions& all) {
    all.push_back({.name = "Clip",
                   .types = {{kFloats}},
                   .attributes = {{"max", AttributeKind::Float}, {"min", AttributeKind::Float}},
                   .infer = infer_clip,
                   .lower = lower_clip_6});
    all.push_back({.name = "Clip",
                   .since = 11,
                   .inputs = {1, 3},
                   .types = {{kNumbers, 'T'}},
                   .infer = infer_clip,
                   .lower = lower_clip_11});
}

}  // namespace refactor::onnx
