#include "computation/operator.h"
#include "kernel/ops/vision.h"
#include "operator_def.h"

// Det and com.microsoft Inverse.

namespace refactor::onnx {

namespace {

Status infer_matrix(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 2, 64));
    auto shape = c.shape(0);
    auto rank = shape.size();
    RG_CHECK_STATUS(c.expect_equal(shape[rank - 1], shape[rank - 2], "the number of columns"));
    if (n.op_type == "Det") shape.resize(rank - 2);
    return c.set(0, c.dtype(0), std::move(shape));
}

Status lower_matrix(LowerContext& c, NodeView const& n) {
    auto kind = n.op_type == "Det" ? kernel::MatrixKind::Determinant : kernel::MatrixKind::Inverse;
    c.emit_output(computation::make_operator(kernel::MatrixInfo{kind}), {c.edge(0)});
    return std::nullopt;
}

}  // namespace

void define_square_matrix(Definitions& all) {
    OperatorDef def{.name = "Det", .since = 11, .types = {{kFloats}}, .infer = infer_matrix, .lower = lower_matrix};
    all.push_back(def);
    def.name = "Inverse", def.since = 1, def.domain = "com.microsoft";
    all.push_back(std::move(def));
}

}  // namespace refactor::onnx
