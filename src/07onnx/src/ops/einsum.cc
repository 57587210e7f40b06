#include "frontend/einsum.h"

#include "operator_def.h"

namespace refactor::onnx {

namespace {

Status infer_einsum(InferContext& c, NodeView const& n) {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < c.input_count(); ++i) shapes.push_back(c.shape(i));
    RG_TRY_STATUS(shape, frontend::einsum_rule(n.text("equation", ""), shapes, c));
    return c.set(0, c.dtype(0), std::move(shape));
}

Status lower_einsum(LowerContext& c, NodeView const& n) {
    std::vector<LowerContext::Edge> operands;
    for (size_t i = 0; i < c.input_count(); ++i) operands.push_back(c.edge(i));
    RG_TRY_STATUS(result, frontend::lower_einsum(c, n.text("equation", ""), operands));
    c.set_output(0, result);
    return std::nullopt;
}

}  // namespace

void define_einsum(Definitions& all) {
    all.push_back({.name = "Einsum",
                   .since = 12,
                   .inputs = {1, kVariadic},
                   .types = {{kNumbers, 'T'}},
                   .attributes = {{"equation", AttributeKind::String, true}},
                   .infer = infer_einsum,
                   .lower = lower_einsum});
}

}  // namespace refactor::onnx
