#include "computation/operator.h"
#include "kernel/ops/vision.h"
#include "operator_def.h"

namespace refactor::onnx {

namespace {

Status infer_lrn(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 3, 64));
    auto size = n.integer("size", 0);
    if (size < 1 || size > (int64_t{1} << 31)) return invalid("size is ", size, ", expected 1 to 2^31");
    return c.set(0, c.dtype(0), c.shape(0));
}

Status lower_lrn(LowerContext& c, NodeView const& n) {
    kernel::LrnInfo info;
    info.size = n.integer("size", 1), info.alpha = n.number("alpha", 1e-4f);
    info.beta = n.number("beta", 0.75f), info.bias = n.number("bias", 1);
    c.emit_output(computation::make_operator(info), {c.edge(0)});
    return std::nullopt;
}

}  // namespace

void define_lrn(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "LRN",
                   .types = {{kFloats}},
                   .attributes = {{"alpha", K::Float}, {"beta", K::Float}, {"bias", K::Float}, {"size", K::Int, true}},
                   .infer = infer_lrn,
                   .lower = lower_lrn});
}

}  // namespace refactor::onnx
