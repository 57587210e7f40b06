#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "operator_def.h"
#include "ops/integers.h"

namespace refactor::onnx {

namespace {

using computation::make_operator;
using frontend::normalize_axis;

Status infer_cumsum(InferContext& ctx, NodeView const&) {
    RG_TRY_STATUS(axis, ctx.integers(1, "axis"));
    if (axis.size() != 1) return invalid("axis has ", axis.size(), " elements, expected 1");
    RG_TRY_STATUS(normal, normalize_axis(axis[0], ctx.shape(0).size()));
    return ctx.set(0, ctx.dtype(0), ctx.shape(0));
}

Status lower_cumsum(LowerContext& ctx, NodeView const& node) {
    RG_TRY_STATUS(axis, normalize_axis(known_integers(ctx.tensor(1)).at(0), ctx.shape(0).size()));
    kernel::CumSumInfo info{static_cast<int64_t>(axis), node.integer("exclusive", 0) != 0,
                            node.integer("reverse", 0) != 0};
    ctx.emit_output(make_operator(info), {ctx.edge(0)});
    return std::nullopt;
}

Status infer_top_k(InferContext& ctx, NodeView const& node) {
    auto shape = ctx.shape(0);
    RG_TRY_STATUS(axis, normalize_axis(node.integer("axis", -1), shape.size()));
    DimExpr k(node.integer("k", 0));
    if (ctx.has(1)) {
        RG_TRY_STATUS(given, ctx.values(1, "k"));
        if (given.size() != 1) return invalid("k has ", given.size(), " elements, expected 1");
        k = given[0];
    }
    auto count = k.constant(), size = shape[axis].constant();
    if (count && *count < 0) return invalid("k is ", *count, ", expected at least 0");
    if (count && size && *count > *size) return invalid("k is ", *count, ", but axis ", axis, " has size ", *size);
    shape[axis] = k;
    RG_CHECK_STATUS(ctx.set(0, ctx.dtype(0), shape));
    return ctx.set(1, DataType::I64, std::move(shape));
}

Status lower_top_k(LowerContext& ctx, NodeView const& node) {
    RG_TRY_STATUS(axis, normalize_axis(node.integer("axis", -1), ctx.shape(0).size()));
    kernel::TopKInfo info{static_cast<int64_t>(axis), node.integer("largest", 1) != 0, node.integer("sorted", 1) != 0};
    auto const& shape = *ctx.output().shape;
    auto edges = ctx.emit_all(make_operator(info), {ctx.edge(0)}, {{ctx.dtype(0), shape}, {DataType::I64, shape}});
    for (size_t i = 0; i < ctx.output_count(); ++i) ctx.set_output(i, edges[i]);
    return std::nullopt;
}

Status infer_one_hot(InferContext& ctx, NodeView const& node) {
    RG_TRY_STATUS(axis, normalize_axis(node.integer("axis", -1), ctx.shape(0).size() + 1));
    RG_TRY_STATUS(depth, ctx.values(1, "depth"));
    if (depth.size() != 1) return invalid("depth has ", depth.size(), " elements, expected 1");
    if (auto known = depth[0].constant(); known && *known < 0)
        return invalid("depth is ", *known, ", expected at least 0");
    RG_CHECK_STATUS(frontend::expect_rank(ctx.input(2), 1, 1));
    RG_CHECK_STATUS(frontend::expect_equal(ctx.shape(2)[0], DimExpr(2), "the size of values", ctx.symbols()));
    auto shape = ctx.shape(0);
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(axis), depth[0]);
    return ctx.set(0, ctx.dtype(2), std::move(shape));
}

Status lower_one_hot(LowerContext& ctx, NodeView const& node) {
    RG_TRY_STATUS(axis, normalize_axis(node.integer("axis", -1), ctx.shape(0).size() + 1));
    auto* indices = ctx.cast(ctx.edge(0), DataType::I64);
    ctx.emit_output(make_operator(kernel::OneHotInfo{static_cast<int64_t>(axis)}), {indices, ctx.edge(2)});
    return std::nullopt;
}

Status infer_trilu(InferContext& ctx, NodeView const&) {
    RG_CHECK_STATUS(frontend::expect_rank(ctx.input(0), 2, 64));
    if (ctx.has(1)) {
        RG_TRY_STATUS(k, ctx.values(1, "k"));
        if (k.size() != 1) return invalid("k has ", k.size(), " elements, expected 1");
    }
    return ctx.set(0, ctx.dtype(0), ctx.shape(0));
}

Status lower_trilu(LowerContext& ctx, NodeView const& node) {
    DimExpr k(0);
    if (ctx.has(1)) {
        auto const& tensor = ctx.tensor(1);
        k = tensor.values ? (*tensor.values)[0] : DimExpr(known_integers(tensor).at(0));
    }
    ctx.emit_output(make_operator(kernel::TriluInfo{node.integer("upper", 1) != 0}, {k}), {ctx.edge(0)});
    return std::nullopt;
}

}  // namespace

void define_selection(Definitions& all) {
    using enum AttributeKind;
    AttributeDef axis{"axis", Int}, largest{"largest", Int}, sorted{"sorted", Int};
    std::vector<InputDef> with_k{{kNumbers}, {kI64}};
    all.push_back({"CumSum",
                   11,
                   {2, 2},
                   {1, 1},
                   {{kNumbers}, {kIndices}},
                   {{"exclusive", Int}, {"reverse", Int}},
                   infer_cumsum,
                   lower_cumsum});
    all.push_back({"TopK", 1, {1, 1}, {2, 2}, {{kNumbers}}, {axis, {"k", Int, true}}, infer_top_k, lower_top_k});
    all.push_back({"TopK", 10, {2, 2}, {2, 2}, with_k, {axis}, infer_top_k, lower_top_k});
    all.push_back({"TopK", 11, {2, 2}, {2, 2}, with_k, {axis, largest, sorted}, infer_top_k, lower_top_k});
    all.push_back(
        {"OneHot", 9, {3, 3}, {1, 1}, {{kNumbers}, {kNumbers}, {kAny}}, {axis}, infer_one_hot, lower_one_hot});
    all.push_back({"Trilu", 14, {1, 2}, {1, 1}, {{kAny}, {kI64}}, {{"upper", Int}}, infer_trilu, lower_trilu});
}

}  // namespace refactor::onnx
