#include "computation/operator.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/vision.h"
#include "operator_def.h"

// CenterCropPad and ReverseSequence.

namespace refactor::onnx {

namespace {

/// Sizes of the result.
Inferred<Shape> centered_shape(InferContext& c, NodeView const& n) {
    auto shape = c.shape(0);
    RG_TRY(sizes, c.sizes(1, "shape"));
    std::vector<int64_t> given = n.integers("axes");
    if (!n.has("axes"))
        for (size_t i = 0; i < shape.size(); ++i) given.push_back(static_cast<int64_t>(i));
    RG_TRY(unique, frontend::normalize_axes(given, shape.size()));
    if (sizes.size() != given.size())
        return Err{invalid("shape has ", sizes.size(), " entries, expected one for each of ", given.size(), " axes")};
    for (size_t i = 0; i < given.size(); ++i) {
        if (sizes[i].constant().value_or(0) < 0)
            return Err{invalid("shape has the negative entry ", *sizes[i].constant())};
        RG_TRY(axis, frontend::normalize_axis(given[i], shape.size()));
        shape[axis] = sizes[i];
    }
    return shape;
}

Status infer_center_crop_pad(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(1), 1, 1));
    RG_TRY_STATUS(shape, centered_shape(c, n));
    return c.set(0, c.dtype(0), shape);
}

/// Cuts what is too large, then pads what is too small; an odd rest goes to the end.
Status lower_center_crop_pad(LowerContext& c, NodeView const&) {
    auto const &x = c.shape(0), &y = *c.output().shape;
    std::vector<DimExpr> starts, begins;
    Shape cut;
    for (size_t i = 0; i < x.size(); ++i) {
        starts.push_back(floor_div(max(x[i] - y[i], 0), 2));
        begins.push_back(floor_div(max(y[i] - x[i], 0), 2));
        cut.push_back(x[i] == y[i] ? x[i] : min(x[i], y[i]));
    }
    auto* edge = c.edge(0);
    if (cut != x)
        edge =
            c.emit(computation::make_operator(kernel::SliceInfo{Dims(x.size(), 1)}, starts), {edge}, c.dtype(0), cut);
    if (cut != y) edge = c.emit(computation::make_operator(kernel::PadInfo{}, begins), {edge}, c.dtype(0), y);
    c.set_output(0, edge);
    return std::nullopt;
}

Status infer_reverse_sequence(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 2, 64));
    RG_CHECK_STATUS(frontend::expect_rank(c.input(1), 1, 1));
    auto time = n.integer("time_axis", 0), batch = n.integer("batch_axis", 1);
    bool valid = (time == 0 && batch == 1) || (time == 1 && batch == 0);
    if (!valid) return invalid("time_axis and batch_axis are ", time, " and ", batch, ", expected 0 and 1 or 1 and 0");
    RG_CHECK_STATUS(c.expect_equal(c.shape(1)[0], c.shape(0)[static_cast<size_t>(batch)], "the number of lengths"));
    return c.set(0, c.dtype(0), c.shape(0));
}

Status lower_reverse_sequence(LowerContext& c, NodeView const& n) {
    kernel::ReverseSequenceInfo info{n.integer("time_axis", 0), n.integer("batch_axis", 1)};
    c.emit_output(computation::make_operator(info), {c.edge(0), c.edge(1)});
    return std::nullopt;
}

}  // namespace

void define_center_crop_pad(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "CenterCropPad",
                   .since = 18,
                   .inputs = {2, 2},
                   .types = {{kAny}, {kIndices}},
                   .attributes = {{"axes", K::Ints}},
                   .infer = infer_center_crop_pad,
                   .lower = lower_center_crop_pad});
    all.push_back({.name = "ReverseSequence",
                   .since = 10,
                   .inputs = {2, 2},
                   .types = {{kAny}, {kI64}},
                   .attributes = {{"batch_axis", K::Int}, {"time_axis", K::Int}},
                   .infer = infer_reverse_sequence,
                   .lower = lower_reverse_sequence});
}

}  // namespace refactor::onnx
