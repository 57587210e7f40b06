#include "computation/operator.h"
#include "frontend/recorded.h"
#include "kernel/ops/movement.h"
#include "operator_def.h"

#include <cmath>

// Operators that turn sizes into data, and Range.

namespace refactor::onnx {

namespace {

Status infer_shape(InferContext& c, NodeView const& n) {
    auto const& x = c.shape(0);
    auto rank = static_cast<int64_t>(x.size());
    auto bound = [&](int64_t value) { return std::clamp<int64_t>(value < 0 ? value + rank : value, 0, rank); };
    auto start = bound(n.integer("start", 0)), end = std::max(start, bound(n.integer("end", rank)));
    Shape sizes(x.begin() + start, x.begin() + end);
    RG_CHECK_STATUS(c.set(0, DataType::I64, {DimExpr(end - start)}));
    c.set_values(0, std::move(sizes));
    return std::nullopt;
}

Status infer_size(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(c.set(0, DataType::I64, {}));
    c.set_values(0, {element_count(c.shape(0))});
    return std::nullopt;
}

Status lower_known(LowerContext&, NodeView const&) { return unsupported("sizes that are not known"); }

/// Length for bounds that are constants, computed as the specification says: max(ceil((limit - start) / delta), 0).
Inferred<DimExpr> constant_length(InferContext& c) {
    double bounds[3];
    for (size_t i = 0; i < 3; ++i) {
        RG_TRY(value, c.floats(i, "a bound"));
        bounds[i] = value.at(0);
    }
    if (bounds[2] == 0) return Err{invalid("delta is 0")};
    auto length = std::ceil((bounds[1] - bounds[0]) / bounds[2]);
    if (!(std::abs(length) < 0x1p40)) return Err{invalid("the range would have ", length, " elements")};
    return DimExpr(std::max(static_cast<int64_t>(length), int64_t{0}));
}

Inferred<DimExpr> range_length(InferContext& c) {
    std::vector<DimExpr> bounds;
    bool constant = true;
    for (size_t i = 0; i < 3; ++i) constant = constant && c.input(i).constant;
    if (constant) return constant_length(c);
    for (size_t i = 0; i < 3; ++i) {
        RG_TRY(value, c.values(i, "a bound"));
        bounds.push_back(value.at(0));
    }
    auto delta = bounds[2].constant();
    if (!delta) return Err{unsupported("a delta that is not known")};
    if (*delta == 0) return Err{invalid("delta is 0")};
    auto span = bounds[1] - bounds[0];
    return max(0, *delta > 0 ? ceil_div(span, *delta) : ceil_div(DimExpr(0) - span, -*delta));
}

Status infer_range(InferContext& c, NodeView const&) {
    for (size_t i = 0; i < 3; ++i)
        if (!c.shape(i).empty() && c.shape(i) != Shape{DimExpr(1)})
            return invalid("\"", c.input(i).name, "\" has the shape ", c.text(c.shape(i)), ", expected a scalar");
    auto length_or = range_length(c);
    if (!length_or.ok() && length_or.error().kind == InferError::Kind::NeedsValue && c.leave_to_run())
        return c.set(0, c.dtype(0), {c.fresh(0)});
    if (!length_or.ok()) return length_or.error();
    auto const& length = *length_or;
    RG_CHECK_STATUS(c.set(0, c.dtype(0), {length}));
    auto count = length.constant();
    auto start = c.known_values(0), delta = c.known_values(2);
    if (!count || *count > static_cast<int64_t>(InferContext::kMaxValues) || !start || !delta) return std::nullopt;
    std::vector<DimExpr> values;
    for (int64_t i = 0; i < *count; ++i) values.push_back((*start)[0] + (*delta)[0] * i);
    c.set_values(0, std::move(values));
    return std::nullopt;
}

Status lower_range(LowerContext& c, NodeView const&) {
    auto view = c.view();
    auto start = view.known_values(0), delta = view.known_values(2);
    if (start && delta && c.dtype(0) == DataType::I64)
        c.emit_output(computation::make_operator(kernel::RangeInfo{}, {(*start)[0], (*delta)[0]}), {});
    else
        c.emit_output(computation::make_operator(kernel::RangeInfo{}),
                      {c.reshape(c.edge(0), {}), c.reshape(c.edge(2), {})});
    return std::nullopt;
}

Inferred<frontend::ProcedurePtr> make_range(frontend::ProcedureContext const& p, NodeView const&) {
    return frontend::record<kernel::make_range>(p.dtype(0), p.place());
}

}  // namespace

void define_shape(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "Shape", .infer = infer_shape, .lower = lower_known});
    all.push_back({.name = "Shape",
                   .since = 15,
                   .attributes = {{"end", K::Int}, {"start", K::Int}},
                   .infer = infer_shape,
                   .lower = lower_known});
    all.push_back({.name = "Size", .infer = infer_size, .lower = lower_known});
    all.push_back({.name = "Range",
                   .since = 11,
                   .inputs = {3, 3},
                   .types = {{kFloats | kSigned, 'T'}},
                   .infer = infer_range,
                   .lower = lower_range,
                   .procedure = make_range});
}

}  // namespace refactor::onnx
