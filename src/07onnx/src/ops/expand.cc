#include "computation/operator.h"
#include "kernel/ops/movement.h"
#include "operator_def.h"

namespace refactor::onnx {

namespace {

/// The values of a result that repeats one value.
void repeat_value(InferContext& c, Shape const& shape) {
    auto values = c.input(0).constant ? std::nullopt : c.known_values(0);
    auto count = element_count(shape).constant();
    if (!values || values->size() != 1 || !count || *count > static_cast<int64_t>(InferContext::kMaxValues)) return;
    c.set_values(0, std::vector<DimExpr>(static_cast<size_t>(*count), (*values)[0]));
}

Status infer_expand(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(1), 1, 1));
    RG_TRY_STATUS(target, c.sizes(1, "the target shape"));
    for (auto const& size : target)
        if (size.constant().value_or(0) < 0)
            return invalid("the target shape ", c.text(target), " has a negative size");
    RG_TRY_STATUS(shape, frontend::broadcast_shapes({c.shape(0), target}, c.symbols()));
    RG_CHECK_STATUS(c.set(0, c.dtype(0), shape));
    repeat_value(c, shape);
    return std::nullopt;
}

Status lower_expand(LowerContext& c, NodeView const&) {
    if (*c.output().shape == c.shape(0))
        c.set_output(0, c.edge(0));
    else
        c.emit_output(computation::make_operator(kernel::ExpandInfo{}), {c.edge(0)});
    return std::nullopt;
}

/// Opset 1 repeated one axis; its inputs had the type of the data.
Status infer_tile_1(InferContext& c, NodeView const&) {
    RG_TRY_STATUS(tiles, c.sizes(1, "tiles"));
    RG_TRY_STATUS(axes, c.integers(2, "axis"));
    if (tiles.size() != 1 || axes.size() != 1)
        return invalid("tiles and axis have ", tiles.size(), " and ", axes.size(), " elements, expected one each");
    RG_TRY_STATUS(axis, frontend::normalize_axis(axes[0], c.shape(0).size()));
    if (tiles[0].constant().value_or(0) < 0) return invalid("tiles is ", *tiles[0].constant());
    auto shape = c.shape(0);
    shape[axis] = shape[axis] * tiles[0];
    return c.set(0, c.dtype(0), std::move(shape));
}

Status infer_tile(InferContext& c, NodeView const&) {
    auto shape = c.shape(0);
    RG_CHECK_STATUS(frontend::expect_rank(c.input(1), 1, 1));
    RG_TRY_STATUS(repeats, c.sizes(1, "repeats"));
    if (repeats.size() != shape.size())
        return invalid("repeats has ", repeats.size(), " entries, expected ", shape.size());
    for (size_t i = 0; i < shape.size(); ++i) {
        if (repeats[i].constant().value_or(0) < 0)
            return invalid("repeats has the negative entry ", *repeats[i].constant());
        shape[i] = shape[i] * repeats[i];
    }
    RG_CHECK_STATUS(c.set(0, c.dtype(0), shape));
    repeat_value(c, shape);
    return std::nullopt;
}

Status lower_tile(LowerContext& c, NodeView const&) {
    if (*c.output().shape == c.shape(0))
        c.set_output(0, c.edge(0));
    else
        c.emit_output(computation::make_operator(kernel::ExpandInfo{true}), {c.edge(0)});
    return std::nullopt;
}

struct Padding {
    std::vector<DimExpr> begins, ends;  ///< by axis
};

Inferred<Padding> padding_of(InferContext& c, NodeView const& n) {
    auto rank = c.shape(0).size();
    std::vector<DimExpr> pads;
    if (n.opset < 11) {
        for (auto pad : n.integers(n.opset < 2 ? "paddings" : "pads")) pads.emplace_back(pad);
    } else {
        RG_TRY(given, c.values(1, "pads"));
        pads = given;
    }
    std::vector<size_t> axes;
    if (c.has(3)) {
        RG_TRY(given, c.integers(3, "axes"));
        RG_TRY(unique, frontend::normalize_axes(given, rank));
        for (auto axis : given)
            axes.push_back(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis));
    } else {
        for (size_t i = 0; i < rank; ++i) axes.push_back(i);
    }
    if (pads.size() != 2 * axes.size())
        return Err{invalid("pads has ", pads.size(), " entries, expected ", 2 * axes.size())};
    Padding padding{std::vector<DimExpr>(rank), std::vector<DimExpr>(rank)};
    for (size_t i = 0; i < axes.size(); ++i)
        padding.begins[axes[i]] = pads[i], padding.ends[axes[i]] = pads[i + axes.size()];
    return padding;
}

Inferred<kernel::PadMode> pad_mode(NodeView const& n) {
    auto mode = n.text("mode", "constant");
    if (mode == "constant") return kernel::PadMode::Constant;
    if (mode == "reflect") return kernel::PadMode::Reflect;
    if (mode == "edge") return kernel::PadMode::Edge;
    if (mode == "wrap" && n.opset >= 19) return kernel::PadMode::Wrap;
    return Err{invalid("mode is \"", mode, "\", expected constant, reflect, edge or wrap")};
}

Status infer_pad(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(mode, pad_mode(n));
    RG_TRY_STATUS(padding, padding_of(c, n));
    auto shape = c.shape(0);
    for (size_t i = 0; i < shape.size(); ++i) {
        auto padded = shape[i] + padding.begins[i] + padding.ends[i];
        bool grows = padding.begins[i] != DimExpr(0) || padding.ends[i] != DimExpr(0);
        if (mode != kernel::PadMode::Constant && grows && shape[i] == DimExpr(0))
            return invalid("axis ", i, " is empty: mode ", n.text("mode", ""), " has nothing to repeat");
        if (padded.constant().value_or(0) < 0) return invalid("axis ", i, " would have the size ", *padded.constant());
        shape[i] = padded;
    }
    if (c.has(2) && c.shape(2) != Shape{} && c.shape(2) != Shape{DimExpr(1)})
        return invalid("the constant has the shape ", c.text(c.shape(2)), ", expected a scalar");
    return c.set(0, c.dtype(0), std::move(shape));
}

Status lower_pad(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    RG_TRY_STATUS(mode, pad_mode(n));
    RG_TRY_STATUS(padding, padding_of(view, n));
    std::vector<LowerContext::Edge> edges{c.edge(0)};
    if (c.has(2))
        edges.push_back(c.reshape(c.edge(2), {}));
    else if (n.opset < 11 && n.number("value", 0) != 0)
        edges.push_back(c.scalar(c.dtype(0), n.number("value", 0)));
    c.emit_output(computation::make_operator(kernel::PadInfo{mode}, padding.begins), edges);
    return std::nullopt;
}

}  // namespace

void define_expand(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "Expand",
                   .since = 8,
                   .inputs = {2, 2},
                   .types = {{kAny}, {kI64}},
                   .infer = infer_expand,
                   .lower = lower_expand});
    all.push_back(
        {.name = "Tile", .inputs = {3, 3}, .types = {{kNumbers}}, .infer = infer_tile_1, .lower = lower_tile});
    all.push_back({.name = "Tile",
                   .since = 6,
                   .inputs = {2, 2},
                   .types = {{kAny}, {kI64}},
                   .infer = infer_tile,
                   .lower = lower_tile});
    all.push_back({.name = "Pad",
                   .types = {{kFloats}},
                   .attributes = {{"mode", K::String}, {"paddings", K::Ints, true}, {"value", K::Float}},
                   .infer = infer_pad,
                   .lower = lower_pad});
    all.push_back({.name = "Pad",
                   .since = 2,
                   .types = {{kFloats}},
                   .attributes = {{"mode", K::String}, {"pads", K::Ints, true}, {"value", K::Float}},
                   .infer = infer_pad,
                   .lower = lower_pad});
    OperatorDef pad{.name = "Pad",
                    .since = 11,
                    .inputs = {2, 3},
                    .types = {{kAny, 'T'}, {kI64}, {kAny, 'T'}, {kIndices}},
                    .attributes = {{"mode", K::String}},
                    .infer = infer_pad,
                    .lower = lower_pad};
    all.push_back(pad);
    pad.since = 18, pad.inputs = {2, 4};
    all.push_back(std::move(pad));
}

}  // namespace refactor::onnx
