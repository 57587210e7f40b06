#include "frontend/recorded.h"
#include "operator_def.h"

// NonZero, Compress, Unique, NonMaxSuppression: as many results as the data says.

namespace refactor::onnx {

namespace {

using frontend::ProcedureContext;
using frontend::ProcedurePtr;

std::optional<int64_t> optional_axis(NodeView const& n) {
    if (!n.has("axis")) return std::nullopt;
    return n.integer("axis", 0);
}

Status infer_nonzero(InferContext& c, NodeView const&) {
    return c.set(0, DataType::I64, {DimExpr(static_cast<int64_t>(c.shape(0).size())), c.fresh(0, 1)});
}

Inferred<ProcedurePtr> make_nonzero(ProcedureContext const& p, NodeView const&) {
    return frontend::record<kernel::make_nonzero>(p.dtype(0), p.place());
}

/// Output `i` is input 0 with a size that only the run tells: along the axis, or of all elements in one.
Status set_chosen(InferContext& c, NodeView const& n) {
    if (!n.has("axis")) return c.set(0, c.dtype(0), {c.fresh(0, 0)});
    auto shape = c.shape(0);
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), shape.size()));
    shape[axis] = c.fresh(0, axis);
    return c.set(0, c.dtype(0), std::move(shape));
}

Status infer_compress(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(1), 1, 1));
    return set_chosen(c, n);
}

Inferred<ProcedurePtr> make_compress(ProcedureContext const& p, NodeView const& n) {
    return frontend::record<kernel::make_compress>(p.dtype(0), optional_axis(n), p.place());
}

Status infer_unique(InferContext& c, NodeView const& n) {
    auto sorted = n.integer("sorted", 1);
    if (sorted != 0 && sorted != 1) return invalid("sorted is ", sorted, ", expected 0 or 1");
    RG_CHECK_STATUS(set_chosen(c, n));
    auto axis = optional_axis(n);
    auto const& shape = c.shape(0);
    auto at = static_cast<size_t>(axis.value_or(0) < 0 ? *axis + static_cast<int64_t>(shape.size()) : axis.value_or(0));
    auto chosen = c.fresh(0, axis ? at : 0), all = axis ? shape[at] : element_count(shape);
    RG_CHECK_STATUS(c.set(1, DataType::I64, {chosen}));
    RG_CHECK_STATUS(c.set(2, DataType::I64, {all}));
    return c.set(3, DataType::I64, {chosen});
}

Inferred<ProcedurePtr> make_unique(ProcedureContext const& p, NodeView const& n) {
    return frontend::record<kernel::make_unique>(p.dtype(0), optional_axis(n), n.integer("sorted", 1) != 0, p.place());
}

Status infer_nms(InferContext& c, NodeView const& n) {
    for (size_t i = 0; i < 2; ++i) RG_CHECK_STATUS(frontend::expect_rank(c.input(i), 3, 3));
    RG_CHECK_STATUS(c.expect_equal(c.shape(0)[2], 4, "the last size of boxes"));
    RG_CHECK_STATUS(c.expect_equal(c.shape(1)[0], c.shape(0)[0], "the batches of scores"));
    RG_CHECK_STATUS(c.expect_equal(c.shape(1)[2], c.shape(0)[1], "the boxes of scores"));
    for (size_t i = 2; i < 5; ++i)
        if (c.has(i) && element_count(c.shape(i)).constant().value_or(1) != 1)
            return invalid("input ", i, " has the shape ", c.text(c.shape(i)), ", expected one element");
    auto center = n.integer("center_point_box", 0);
    if (center != 0 && center != 1) return invalid("center_point_box is ", center, ", expected 0 or 1");
    return c.set(0, DataType::I64, {c.fresh(0, 0), 3});
}

Inferred<ProcedurePtr> make_nms(ProcedureContext const& p, NodeView const& n) {
    return frontend::record<kernel::make_non_max_suppression>(n.integer("center_point_box", 0) != 0, p.place());
}

}  // namespace

void define_dynamic_select(Definitions& all) {
    using K = AttributeKind;
    auto const f32 = types(DataType::F32);
    all.push_back({.name = "NonZero",
                   .since = 9,
                   .types = {{kNumbers | kBool}},
                   .infer = infer_nonzero,
                   .procedure = make_nonzero});
    all.push_back({.name = "Compress",
                   .since = 9,
                   .inputs = {2, 2},
                   .types = {{kAny}, {kBool}},
                   .attributes = {{"axis", K::Int}},
                   .infer = infer_compress,
                   .procedure = make_compress});
    all.push_back({.name = "Unique",
                   .since = 11,
                   .outputs = {1, 4},
                   .types = {{kNumbers | kBool | types(DataType::String)}},
                   .attributes = {{"axis", K::Int}, {"sorted", K::Int}},
                   .infer = infer_unique,
                   .procedure = make_unique});
    all.push_back({.name = "NonMaxSuppression",
                   .since = 10,
                   .inputs = {2, 5},
                   .types = {{f32}, {f32}, {kI64}, {f32}, {f32}},
                   .attributes = {{"center_point_box", K::Int}},
                   .infer = infer_nms,
                   .procedure = make_nms});
}

}  // namespace refactor::onnx
