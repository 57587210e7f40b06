#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "operator_def.h"

// Operators that pick, count or mark elements along an axis: TopK, OneHot, CumSum, Trilu, EyeLike, Hardmax.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;

Status infer_top_k(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), c.shape(0).size()));
    DimExpr k = n.integer("k", 0);
    if (c.has(1)) {
        RG_TRY_STATUS(values, c.sizes(1, "k"));
        if (values.size() != 1) return invalid("k has ", values.size(), " elements, expected 1");
        k = values[0];
    }
    auto shape = c.shape(0);
    auto number = k.constant(), size = shape[axis].constant();
    if (number && (*number < 0 || (size && *number > *size)))
        return invalid("k is ", *number, ", axis ", axis, " has the size ", c.text(shape[axis]));
    shape[axis] = k;
    RG_CHECK_STATUS(c.set(0, c.dtype(0), shape));
    return c.set(1, DataType::I64, std::move(shape));
}

Status lower_top_k(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), c.shape(0).size()));
    kernel::TopKInfo info;
    info.axis = static_cast<int64_t>(axis);
    info.largest = n.integer("largest", 1) != 0, info.sorted = n.integer("sorted", 1) != 0;
    auto edges = c.emit_all(computation::make_operator(info), {c.edge(0)},
                            {{c.dtype(0), *c.output().shape}, {DataType::I64, *c.output().shape}});
    for (size_t i = 0; i < 2; ++i) c.set_output(i, edges[i]);
    return std::nullopt;
}

Status infer_one_hot(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), c.shape(0).size() + 1));
    RG_TRY_STATUS(depth, c.sizes(1, "depth"));
    if (depth.size() != 1) return invalid("depth has ", depth.size(), " elements, expected 1");
    if (depth[0].constant().value_or(1) < 1) return invalid("depth is ", *depth[0].constant(), ", expected at least 1");
    RG_CHECK_STATUS(frontend::expect_rank(c.input(2), 1, 1));
    RG_CHECK_STATUS(c.expect_equal(c.shape(2)[0], DimExpr(2), "the number of values"));
    auto shape = c.shape(0);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), depth[0]);
    return c.set(0, c.dtype(2), std::move(shape));
}

Status lower_one_hot(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), c.shape(0).size() + 1));
    auto* indices = c.dtype(0) == DataType::I32 ? c.edge(0) : c.cast(c.edge(0), DataType::I64);
    c.emit_output(computation::make_operator(kernel::OneHotInfo{static_cast<int64_t>(axis)}), {indices, c.edge(2)});
    return std::nullopt;
}

Inferred<size_t> sum_axis(InferContext& c) {
    RG_TRY(axis, c.integers(1, "axis"));
    if (axis.size() != 1) return Err{invalid("axis has ", axis.size(), " elements, expected 1")};
    return frontend::normalize_axis(axis[0], c.shape(0).size());
}

Status infer_cumsum(InferContext& c, NodeView const&) {
    RG_TRY_STATUS(axis, sum_axis(c));
    return c.set(0, c.dtype(0), c.shape(0));
}

Status lower_cumsum(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    RG_TRY_STATUS(axis, sum_axis(view));
    kernel::CumSumInfo info;
    info.axis = static_cast<int64_t>(axis);
    info.exclusive = n.integer("exclusive", 0) != 0, info.reverse = n.integer("reverse", 0) != 0;
    info.product = n.op_type == "CumProd";
    c.emit_output(computation::make_operator(info), {c.edge(0)});
    return std::nullopt;
}

Inferred<DimExpr> diagonal(InferContext& c) {
    if (!c.has(1)) return DimExpr(0);
    RG_TRY(k, c.values(1, "k"));
    if (k.size() != 1) return Err{invalid("k has ", k.size(), " elements, expected 1")};
    return k[0];
}

Status infer_trilu(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 2, 64));
    RG_TRY_STATUS(k, diagonal(c));
    return c.set(0, c.dtype(0), c.shape(0));
}

Status lower_trilu(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    RG_TRY_STATUS(k, diagonal(view));
    c.emit_output(computation::make_operator(kernel::TriluInfo{n.integer("upper", 1) != 0}, {k}), {c.edge(0)});
    return std::nullopt;
}

Status infer_eye_like(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 2, 2));
    auto dtype = c.dtype(0);
    if (n.has("dtype")) {
        auto given = data_type_from_onnx(n.integer("dtype", 0));
        if (!given) return invalid("the type ", n.integer("dtype", 0), " does not exist");
        dtype = *given;
    }
    return c.set(0, dtype, c.shape(0));
}

LowerContext::Edge counter(LowerContext& c, DimExpr const& start, DimExpr const& length, Shape shape) {
    auto* list =
        c.emit(computation::make_operator(kernel::RangeInfo{}, {start, DimExpr(1)}), {}, DataType::I64, {length});
    return c.reshape(list, std::move(shape));
}

/// 1 where column = row + k.
Status lower_eye_like(LowerContext& c, NodeView const& n) {
    auto const& x = c.shape(0);
    auto* rows = counter(c, n.integer("k", 0), x[0], {x[0], DimExpr(1)});
    auto* columns = counter(c, 0, x[1], {DimExpr(1), x[1]});
    Expression e;
    auto hit = e.binary(ExprOp::Equal, e.input(0, DataType::I64), e.input(1, DataType::I64));
    c.emit_output(computation::make_operator(e.finish(e.cast(hit, c.output().dtype))), {rows, columns});
    return std::nullopt;
}

/// The axis along which the maximum is sought, in the shape that puts it there: before opset 13 all axes from `axis` on
/// count as one.
struct HardmaxRow {
    Shape shape;
    size_t axis;
};
Inferred<HardmaxRow> hardmax_row(Shape const& x, NodeView const& n) {
    auto rank = static_cast<int64_t>(x.size()), given = n.integer("axis", n.opset < 13 ? 1 : -1);
    if (n.opset < 13 && given == rank) return HardmaxRow{{element_count(x), DimExpr(1)}, 1};
    RG_TRY(axis, frontend::normalize_axis(given, x.size()));
    if (n.opset >= 13) return HardmaxRow{x, axis};
    auto middle = x.begin() + static_cast<std::ptrdiff_t>(axis);
    return HardmaxRow{{element_count(Shape(x.begin(), middle)), element_count(Shape(middle, x.end()))}, 1};
}

Status infer_hardmax(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(row, hardmax_row(c.shape(0), n));
    return c.set(0, c.dtype(0), c.shape(0));
}

/// 1 at the first maximum along the axis: the position equals ArgMax.
Status lower_hardmax(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(row, hardmax_row(c.shape(0), n));
    auto const& [x, axis] = row;
    kernel::ArgReduceInfo info;
    info.axis = static_cast<int64_t>(axis);
    auto* best = c.emit(computation::make_operator(info), {c.reshape(c.edge(0), x)}, DataType::I64,
                        frontend::without_axes(x, {axis}, true));
    Shape along(x.size() - axis, DimExpr(1));
    along[0] = x[axis];
    auto* positions = counter(c, 0, x[axis], along);
    Expression e;
    auto hit = e.binary(ExprOp::Equal, e.input(0, DataType::I64), e.input(1, DataType::I64));
    auto* marks =
        c.emit(computation::make_operator(e.finish(e.cast(hit, c.dtype(0)))), {best, positions}, c.dtype(0), x);
    c.set_output(0, c.reshape(marks, c.shape(0)));
    return std::nullopt;
}

}  // namespace

void define_select(Definitions& all) {
    using K = AttributeKind;
    OperatorDef top{.name = "TopK",
                    .outputs = {2, 2},
                    .types = {{kNumbers}},
                    .attributes = {{"axis", K::Int}, {"k", K::Int, true}},
                    .infer = infer_top_k,
                    .lower = lower_top_k};
    all.push_back(top);
    top.since = 10, top.inputs = {2, 2}, top.types.push_back({kI64}), top.attributes.pop_back();
    all.push_back(top);
    top.since = 11, top.attributes.insert(top.attributes.end(), {{"largest", K::Int}, {"sorted", K::Int}});
    all.push_back(std::move(top));
    all.push_back({.name = "OneHot",
                   .since = 9,
                   .inputs = {3, 3},
                   .types = {{kNumbers}, {kNumbers}, {kAny}},
                   .attributes = {{"axis", K::Int}},
                   .infer = infer_one_hot,
                   .lower = lower_one_hot});
    all.push_back({.name = "CumSum",
                   .since = 11,
                   .inputs = {2, 2},
                   .types = {{kNumbers}, {kIndices}},
                   .attributes = {{"exclusive", K::Int}, {"reverse", K::Int}},
                   .infer = infer_cumsum,
                   .lower = lower_cumsum});
    all.push_back({.name = "CumProd",
                   .since = 26,
                   .inputs = {2, 2},
                   .types = {{kNumbers}, {kIndices}},
                   .attributes = {{"exclusive", K::Int}, {"reverse", K::Int}},
                   .infer = infer_cumsum,
                   .lower = lower_cumsum});
    all.push_back({.name = "Trilu",
                   .since = 14,
                   .inputs = {1, 2},
                   .types = {{kAny}, {kI64}},
                   .attributes = {{"upper", K::Int}},
                   .infer = infer_trilu,
                   .lower = lower_trilu});
    all.push_back({.name = "EyeLike",
                   .since = 9,
                   .types = {{kNumbers | kBool}},
                   .attributes = {{"dtype", K::Int}, {"k", K::Int}},
                   .infer = infer_eye_like,
                   .lower = lower_eye_like});
    all.push_back({.name = "Hardmax",
                   .types = {{kFloats}},
                   .attributes = {{"axis", K::Int}},
                   .infer = infer_hardmax,
                   .lower = lower_hardmax});
}

}  // namespace refactor::onnx
