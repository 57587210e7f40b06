#include "computation/operator.h"
#include "frontend/recorded.h"
#include "kernel/ops/movement.h"
#include "operator_def.h"
#include "size_values.h"

#include <algorithm>
#include <numeric>

namespace refactor::onnx {

namespace {

struct Sliced {
    Shape shape;
    std::vector<DimExpr> starts;
    Dims steps;
};

/// The bounds of all sliced axes: attributes before opset 10, inputs since.
struct Bounds {
    std::vector<DimExpr> starts, ends;
    std::vector<int64_t> axes, steps;
};

Inferred<Bounds> bounds_of(InferContext& c, NodeView const& n) {
    Bounds bounds;
    bool dynamic = n.op_type == "DynamicSlice";
    if (n.opset < 10 && !dynamic) {
        for (auto value : n.integers("starts")) bounds.starts.emplace_back(value);
        for (auto value : n.integers("ends")) bounds.ends.emplace_back(value);
        bounds.axes = n.integers("axes");
    } else {
        RG_TRY(starts, c.values(1, "starts"));
        RG_TRY(ends, c.values(2, "ends"));
        bounds.starts = starts, bounds.ends = ends;
        if (c.has(3)) {
            RG_TRY(axes, c.integers(3, "axes"));
            bounds.axes = axes;
        }
        if (c.has(4)) {
            RG_TRY(steps, c.integers(4, "steps"));
            bounds.steps = steps;
        }
    }
    auto count = bounds.starts.size();
    if (bounds.axes.empty())
        for (size_t i = 0; i < count; ++i) bounds.axes.push_back(static_cast<int64_t>(i));
    if (bounds.steps.empty()) bounds.steps.assign(count, 1);
    if (bounds.ends.size() != count || bounds.axes.size() != count || bounds.steps.size() != count)
        return Err{invalid("starts, ends, axes and steps have ", count, ", ", bounds.ends.size(), ", ",
                           bounds.axes.size(), " and ", bounds.steps.size(), " entries, expected equal numbers")};
    return bounds;
}

Inferred<Sliced> slice(InferContext& c, NodeView const& n) {
    RG_TRY(bounds, bounds_of(c, n));
    RG_TRY(sorted, frontend::normalize_axes(bounds.axes, c.shape(0).size()));
    Sliced result{c.shape(0), std::vector<DimExpr>(c.shape(0).size()), Dims(c.shape(0).size(), 1)};
    for (size_t i = 0; i < bounds.axes.size(); ++i) {
        RG_TRY(axis, frontend::normalize_axis(bounds.axes[i], c.shape(0).size()));
        RG_TRY(range, frontend::slice_rule(c.shape(0)[axis], bounds.starts[i], bounds.ends[i], bounds.steps[i]));
        for (auto& condition : range.conditions) {
            condition.what += frontend::concat(" along axis ", axis);
            c.expect(std::move(condition));
        }
        result.shape[axis] = range.size, result.starts[axis] = range.start;
        result.steps[axis] = std::clamp(bounds.steps[i], -InferContext::kMaxBytes, InferContext::kMaxBytes);
    }
    return result;
}

/// The type of a slice whose bounds depend on data, along axes that do not.
Status infer_open_slice(InferContext& c) {
    auto shape = c.shape(0);
    std::vector<int64_t> axes;
    if (c.has(3)) {
        RG_TRY_STATUS(given, c.integers(3, "axes"));
        axes = given;
    } else {
        auto count = element_count(c.shape(1)).constant();
        if (!count) return unsupported("the number of starts is not known");
        axes.resize(static_cast<size_t>(std::min(*count, InferContext::kMaxBytes)));
        std::iota(axes.begin(), axes.end(), 0);
    }
    RG_TRY_STATUS(sorted, frontend::normalize_axes(axes, shape.size()));
    for (auto axis : sorted) shape[axis] = c.fresh(0, axis);
    return c.set(0, c.dtype(0), std::move(shape));
}

bool needs_value(InferError const& error) { return error.kind == InferError::Kind::NeedsValue; }

std::optional<std::vector<DimExpr>> sliced_values(InferContext const& c, Sliced const& sliced) {
    auto steps = row_major_steps(c.shape(0));
    if (!steps) return std::nullopt;
    int64_t first = 0;
    for (size_t axis = 0; axis < steps->size(); ++axis) {
        auto start = sliced.starts[axis].constant();
        if (!start) return std::nullopt;
        first += *start * (*steps)[axis];
        (*steps)[axis] *= sliced.steps[axis];
    }
    return viewed_values(c, sliced.shape, *steps, first);
}

Status infer_slice(InferContext& c, NodeView const& n) {
    auto sliced_or = slice(c, n);
    if (!sliced_or.ok() && needs_value(sliced_or.error()) && c.leave_to_run()) return infer_open_slice(c);
    if (!sliced_or.ok()) return sliced_or.error();
    auto const& sliced = *sliced_or;
    RG_CHECK_STATUS(c.set(0, c.dtype(0), sliced.shape));
    if (auto values = sliced_values(c, sliced)) c.set_values(0, std::move(*values));
    return std::nullopt;
}

Status lower_slice(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    RG_TRY_STATUS(sliced, slice(view, n));
    bool whole = sliced.shape == c.shape(0);
    for (auto step : sliced.steps) whole = whole && step == 1;
    if (whole)
        c.set_output(0, c.edge(0));
    else
        c.emit_output(computation::make_operator(kernel::SliceInfo{sliced.steps}, sliced.starts), {c.edge(0)});
    return std::nullopt;
}

Inferred<frontend::ProcedurePtr> make_slice(frontend::ProcedureContext const& p, NodeView const&) {
    return frontend::record<kernel::make_slice>(p.dtype(0), p.inputs[0]->shape->size(), p.place());
}

}  // namespace

void define_slice(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "Slice",
                   .attributes = {{"axes", K::Ints}, {"ends", K::Ints, true}, {"starts", K::Ints, true}},
                   .infer = infer_slice,
                   .lower = lower_slice});
    // Experimental in ONNX 1.2 to 1.4, then the form of Slice.
    all.push_back({.name = "DynamicSlice",
                   .inputs = {3, 4},
                   .types = {{kAny}, {kIndices, 'I'}},
                   .infer = infer_slice,
                   .lower = lower_slice,
                   .procedure = make_slice});
    all.push_back({.name = "DynamicSlice", .since = 10});
    all.push_back({.name = "Slice",
                   .since = 10,
                   .inputs = {3, 5},
                   .types = {{kAny}, {kIndices, 'I'}},
                   .infer = infer_slice,
                   .lower = lower_slice,
                   .procedure = make_slice});
}

}  // namespace refactor::onnx
