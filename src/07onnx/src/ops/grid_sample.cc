#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/vision.h"
#include "operator_def.h"

// GridSample, and AffineGrid, which makes the grids.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using frontend::Expression;
using kernel::ExprOp;
using kernel::GridMode;
using kernel::GridPadding;
using Edge = LowerContext::Edge;

Inferred<kernel::GridSampleInfo> options_of(NodeView const& n) {
    kernel::GridSampleInfo info;
    info.align_corners = n.integer("align_corners", 0) != 0;
    bool old = n.opset < 20;  // com.microsoft has version 1 only, which is the form of opset 16
    std::string_view linear = old ? "bilinear" : "linear", cubic = old ? "bicubic" : "cubic";
    auto mode = n.text("mode", linear), padding = n.text("padding_mode", "zeros");
    if (mode != linear && mode != cubic && mode != "nearest")
        return Err{invalid("mode is \"", mode, "\", expected one of: ", linear, ", nearest, ", cubic)};
    info.mode = mode == linear ? GridMode::Linear : mode == cubic ? GridMode::Cubic : GridMode::Nearest;
    if (padding != "zeros" && padding != "border" && padding != "reflection")
        return Err{invalid("padding_mode is \"", padding, "\", expected one of: zeros, border, reflection")};
    info.padding = padding == "zeros"    ? GridPadding::Zeros
                   : padding == "border" ? GridPadding::Border
                                         : GridPadding::Reflection;
    return info;
}

Status infer_grid_sample(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(options, options_of(n));
    RG_CHECK_STATUS(n.opset < 20 ? expect_rank(c.input(0), 4, 4) : expect_rank(c.input(0), 3, 64));
    auto const &x = c.shape(0), &grid = c.shape(1);
    RG_CHECK_STATUS(expect_rank(c.input(1), x.size(), x.size()));
    RG_CHECK_STATUS(c.expect_equal(grid[0], x[0], "the batch size of the grid"));
    auto axes = static_cast<int64_t>(x.size()) - 2;
    RG_CHECK_STATUS(c.expect_equal(grid.back(), axes, "the number of coordinates"));
    if (axes > 3) return unsupported("sampling of ", axes, " spatial axes");
    Shape y{x[0], x[1]};
    y.insert(y.end(), grid.begin() + 1, grid.end() - 1);
    bool empty = element_count(y) == DimExpr(0);
    for (size_t i = 2; i < x.size() && !empty; ++i)
        if (x[i] == DimExpr(0)) return invalid("spatial axis ", i - 2, " of the input is empty");
    return c.set(0, c.dtype(0), std::move(y));
}

Status lower_grid_sample(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(options, options_of(n));
    c.emit_output(computation::make_operator(options), {c.edge(0), c.edge(1)});
    return std::nullopt;
}

Inferred<std::vector<DimExpr>> grid_sizes(InferContext& c) {
    if (auto failure = expect_rank(c.input(0), 3, 3)) return Err{*failure};
    if (auto failure = expect_rank(c.input(1), 1, 1)) return Err{*failure};
    RG_TRY(sizes, c.values(1, "size"));
    auto axes = static_cast<int64_t>(sizes.size()) - 2;
    if (axes != 2 && axes != 3) return Err{invalid("size has ", sizes.size(), " entries, expected 4 or 5")};
    auto const& theta = c.shape(0);
    if (auto failure = c.expect_equal(theta[0], sizes[0], "the batch size of theta")) return Err{*failure};
    if (auto failure = c.expect_equal(theta[1], axes, "the number of rows of theta")) return Err{*failure};
    if (auto failure = c.expect_equal(theta[2], axes + 1, "the number of columns of theta")) return Err{*failure};
    return sizes;
}

Status infer_affine_grid(InferContext& c, NodeView const&) {
    RG_TRY_STATUS(sizes, grid_sizes(c));
    Shape grid{sizes[0]};
    grid.insert(grid.end(), sizes.begin() + 2, sizes.end());
    grid.emplace_back(static_cast<int64_t>(sizes.size()) - 2);
    return c.set(0, c.dtype(0), std::move(grid));
}

/// The normalised coordinates along an axis of `size` elements, as f32 or f64 of `shape`.
Edge emit_coordinates(LowerContext& c, DimExpr const& size, bool align_corners, DataType type, Shape shape) {
    auto counter = computation::make_operator(kernel::RangeInfo{}, {DimExpr(0), DimExpr(1)});
    auto* positions = c.reshape(c.emit(counter, {}, DataType::I64, {size}), shape);
    auto* length =
        c.emit(computation::make_operator(kernel::ShapeValuesInfo{}, {size}), {}, DataType::I64, {DimExpr(1)});
    Expression e;
    auto at = [&](double value) { return e.constant(type, value); };
    auto twice = e.binary(ExprOp::Mul, e.cast(e.input(0, DataType::I64), type), at(2));
    auto n = e.cast(e.input(1, DataType::I64), type);
    // 2 i / (n - 1) - 1, or (2 i + 1 - n) / n. A single element lies at -1 then, whatever the quotient.
    auto result =
        align_corners
            ? e.binary(ExprOp::Sub,
                       e.binary(ExprOp::Div, twice, e.binary(ExprOp::Max, e.binary(ExprOp::Sub, n, at(1)), at(1))),
                       at(1))
            : e.binary(ExprOp::Div, e.binary(ExprOp::Sub, e.binary(ExprOp::Add, twice, at(1)), n), n);
    return c.emit(computation::make_operator(e.finish(result)), {positions, length}, type, std::move(shape));
}

/// theta · (x, y, 1) for all positions, one elementwise pass over the grid.
Status lower_affine_grid(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    RG_TRY_STATUS(sizes, grid_sizes(view));
    auto type = c.dtype(0) == DataType::F64 ? DataType::F64 : DataType::F32;
    auto axes = sizes.size() - 2;
    bool align_corners = n.integer("align_corners", 0) != 0;
    Expression e;
    std::vector<Edge> edges;
    std::vector<Expression::Value> terms;
    // One column of theta [N, axes] each, next to the grid's last axis.
    Shape column{sizes[0]};
    column.resize(axes + 1, DimExpr(1)), column.emplace_back(static_cast<int64_t>(axes));
    for (size_t k = 0; k <= axes; ++k) {
        std::vector<DimExpr> starts{0, 0, static_cast<int64_t>(k)};
        auto* part = c.emit(computation::make_operator(kernel::SliceInfo{{1, 1, 1}}, starts), {c.edge(0)}, c.dtype(0),
                            {sizes[0], DimExpr(static_cast<int64_t>(axes)), DimExpr(1)});
        auto factor = e.cast(e.input(static_cast<uint16_t>(edges.size()), c.dtype(0)), type);
        edges.push_back(c.reshape(part, column));
        if (k < axes) {
            Shape along(axes + 2, DimExpr(1));
            auto axis = axes - 1 - k;
            along[axis + 1] = sizes[axis + 2];
            factor = e.binary(ExprOp::Mul, factor, e.input(static_cast<uint16_t>(edges.size()), type));
            edges.push_back(emit_coordinates(c, sizes[axis + 2], align_corners, type, along));
        }
        terms.push_back(factor);
    }
    auto sum = terms[0];
    for (size_t k = 1; k < terms.size(); ++k) sum = e.binary(ExprOp::Add, sum, terms[k]);
    c.emit_output(computation::make_operator(e.finish(e.cast(sum, c.dtype(0)))), edges);
    return std::nullopt;
}

}  // namespace

void define_grid_sample(Definitions& all) {
    using K = AttributeKind;
    OperatorDef sample{.name = "GridSample",
                       .since = 16,
                       .inputs = {2, 2},
                       .types = {{kAny}, {kFloats}},
                       .attributes = {{"align_corners", K::Int}, {"mode", K::String}, {"padding_mode", K::String}},
                       .infer = infer_grid_sample,
                       .lower = lower_grid_sample};
    all.push_back(sample);
    sample.since = 1, sample.domain = "com.microsoft";
    all.push_back(std::move(sample));
    all.push_back({.name = "AffineGrid",
                   .since = 20,
                   .inputs = {2, 2},
                   .types = {{kFloats}, {kI64}},
                   .attributes = {{"align_corners", K::Int}},
                   .infer = infer_affine_grid,
                   .lower = lower_affine_grid});
}

}  // namespace refactor::onnx
