#include "computation/operator.h"
#include "frontend/recorded.h"
#include "kernel/ops/quantize.h"
#include "operator_def.h"
#include "size_values.h"

#include <algorithm>
#include <numeric>

// Operators that give the same elements another shape: they carry known sizes on, and lower to aliases.

namespace refactor::onnx {

namespace {

Status set_alias(InferContext& c, Shape shape) {
    auto const& x = c.input(0);
    RG_CHECK_STATUS(c.set(0, x.dtype, std::move(shape)));
    if (x.values) c.set_values(0, *x.values);
    if (x.constant) c.set_constant(0, x.constant);
    return std::nullopt;
}

Status lower_alias(LowerContext& c, NodeView const&) {
    c.set_output(0, c.reshape(c.edge(0), *c.output().shape));
    return std::nullopt;
}

Status infer_reshape(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(1), 1, 1));
    RG_TRY_STATUS(sizes, c.values(1, "the target shape"));
    RG_TRY_STATUS(shape, frontend::reshape_rule(c.shape(0), sizes, n.integer("allowzero", 0) != 0, c.symbols()));
    return set_alias(c, shape);
}

Status infer_reshape_1(InferContext& c, NodeView const& n) {
    auto given = n.integers("shape");
    std::vector<DimExpr> sizes(given.begin(), given.end());
    RG_TRY_STATUS(shape, frontend::reshape_rule(c.shape(0), sizes, false, c.symbols()));
    return set_alias(c, shape);
}

Status infer_flatten(InferContext& c, NodeView const& n) {
    auto const& x = c.shape(0);
    auto rank = static_cast<int64_t>(x.size()), axis = n.integer("axis", 1);
    if (axis < -rank || axis > rank)
        return invalid("axis ", axis, " is out of range for a tensor with ", rank, " axes");
    auto middle = x.begin() + static_cast<std::ptrdiff_t>(axis < 0 ? axis + rank : axis);
    return set_alias(c, {element_count(Shape(x.begin(), middle)), element_count(Shape(middle, x.end()))});
}

Inferred<std::vector<int64_t>> axes_of(InferContext& c, NodeView const& n) {
    if (!c.has(1)) return n.integers("axes");
    return c.integers(1, "axes");
}

/// Without axes, those of size 1 go: with sizes that are symbols only the run tells the rank.
Status infer_squeeze(InferContext& c, NodeView const& n) {
    auto const& x = c.shape(0);
    RG_TRY_STATUS(given, axes_of(c, n));
    std::vector<size_t> axes;
    if (!c.has(1) && !n.has("axes")) {
        if (!std::all_of(x.begin(), x.end(), [](DimExpr const& size) { return size.is_constant(); })) {
            c.set_unranked(0, c.dtype(0));
            c.make_procedure();
            return std::nullopt;
        }
        for (size_t i = 0; i < x.size(); ++i)
            if (x[i] == DimExpr(1)) axes.push_back(i);
    } else {
        RG_TRY_STATUS(normal, frontend::normalize_axes(given, x.size()));
        axes = normal;
    }
    for (auto axis : axes)
        if (auto size = x[axis].constant(); size && *size != 1)
            return invalid("axis ", axis, " has the size ", *size, ", expected 1");
    return set_alias(c, frontend::without_axes(x, axes, false));
}

Inferred<frontend::ProcedurePtr> squeeze_procedure(frontend::ProcedureContext const& p, NodeView const& n) {
    auto c = p.view();
    if (!c.has(1) && !n.has("axes")) return frontend::record<kernel::make_squeeze>(std::nullopt);
    RG_TRY(given, axes_of(c, n));
    RG_TRY(axes, frontend::normalize_axes(given, c.shape(0).size()));
    return frontend::record<kernel::make_squeeze>(axes);
}

Status infer_unsqueeze(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(given, axes_of(c, n));
    auto const& x = c.shape(0);
    if (given.size() + x.size() > InferContext::kMaxRank)
        return unsupported("a result of ", given.size() + x.size(), " axes");
    RG_TRY_STATUS(axes, frontend::normalize_axes(given, x.size() + given.size()));
    Shape shape = x;
    for (auto axis : axes) shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), DimExpr(1));
    return set_alias(c, std::move(shape));
}

Inferred<std::vector<size_t>> permutation(Shape const& x, NodeView const& n) {
    std::vector<size_t> perm(x.size());
    if (!n.has("perm")) {
        std::iota(perm.rbegin(), perm.rend(), size_t{0});
        return perm;
    }
    auto given = n.integers("perm");
    if (given.size() != x.size()) return Err{invalid("perm has ", given.size(), " entries, expected ", x.size())};
    std::vector<bool> seen(x.size());
    for (size_t i = 0; i < given.size(); ++i) {
        auto axis = given[i];
        if (axis < 0 || axis >= static_cast<int64_t>(x.size()) || seen[static_cast<size_t>(axis)])
            return Err{invalid("perm is no permutation: entry ", i, " is ", axis)};
        seen[perm[i] = static_cast<size_t>(axis)] = true;
    }
    return perm;
}

Status infer_transpose(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(perm, permutation(c.shape(0), n));
    Shape shape;
    for (auto axis : perm) shape.push_back(c.shape(0)[axis]);
    RG_CHECK_STATUS(c.set(0, c.dtype(0), shape));
    auto const steps = row_major_steps(c.shape(0));
    if (!steps) return std::nullopt;
    Dims permuted;
    for (auto axis : perm) permuted.push_back((*steps)[axis]);
    if (auto values = viewed_values(c, shape, permuted)) c.set_values(0, std::move(*values));
    return std::nullopt;
}

Status lower_transpose(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(perm, permutation(c.shape(0), n));
    auto type = c.dtype(0);
    if (bits_of(type) >= 8 || bits_of(type) == 0) {
        c.set_output(0, c.transpose(c.edge(0), {perm.begin(), perm.end()}));
        return std::nullopt;
    }
    // Elements of less than a byte are moved as bytes; floats of four bits are exact in f8.
    auto carrier = is_float(type) ? DataType::F8E4M3FN : is_signed(type) ? DataType::I8 : DataType::U8;
    auto convert = computation::make_operator(kernel::ConvertInfo{});
    auto* wide = c.emit(convert, {c.edge(0)}, carrier, c.shape(0));
    c.emit_output(convert, {c.transpose(wide, {perm.begin(), perm.end()})});
    return std::nullopt;
}

Inferred<int64_t> block_size(InferContext& c, NodeView const& n) {
    if (auto failure = frontend::expect_rank(c.input(0), 4, 4)) return Err{*failure};
    auto block = n.integer("blocksize", 0);
    if (block < 1 || block > (1 << 20)) return Err{invalid("blocksize is ", block, ", expected 1 to 2^20")};
    auto mode = n.text("mode", "DCR");
    if (mode != "DCR" && mode != "CRD") return Err{invalid("mode is \"", mode, "\", expected \"DCR\" or \"CRD\"")};
    return block;
}

Status expect_divisible(DimExpr const& size, int64_t by, std::string_view what) {
    if (auto number = size.constant(); number && *number % by)
        return invalid(what, " ", *number, " is not divisible by ", by);
    return std::nullopt;
}

Status infer_depth_to_space(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(block, block_size(c, n));
    auto const& x = c.shape(0);
    RG_CHECK_STATUS(expect_divisible(x[1], block * block, "the number of channels"));
    return c.set(0, c.dtype(0), {x[0], floor_div(x[1], block * block), x[2] * block, x[3] * block});
}

Status lower_depth_to_space(LowerContext& c, NodeView const& n) {
    auto b = n.integer("blocksize", 0);
    auto const& x = c.shape(0);
    auto depth = (*c.output().shape)[1];
    bool dcr = n.text("mode", "DCR") == "DCR";
    Shape split = dcr ? Shape{x[0], b, b, depth, x[2], x[3]} : Shape{x[0], depth, b, b, x[2], x[3]};
    auto* parts = c.transpose(c.reshape(c.edge(0), split),
                              dcr ? std::vector<int64_t>{0, 3, 4, 1, 5, 2} : std::vector<int64_t>{0, 1, 4, 2, 5, 3});
    c.set_output(0, c.reshape(parts, *c.output().shape));
    return std::nullopt;
}

Status infer_space_to_depth(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(block, block_size(c, n));
    auto const& x = c.shape(0);
    for (size_t i = 2; i < 4; ++i) RG_CHECK_STATUS(expect_divisible(x[i], block, "the size"));
    return c.set(0, c.dtype(0), {x[0], x[1] * (block * block), floor_div(x[2], block), floor_div(x[3], block)});
}

Status lower_space_to_depth(LowerContext& c, NodeView const& n) {
    auto b = n.integer("blocksize", 0);
    auto const &x = c.shape(0), &y = *c.output().shape;
    auto* parts = c.transpose(c.reshape(c.edge(0), {x[0], x[1], y[2], b, y[3], b}),
                              n.text("mode", "DCR") == "DCR" ? std::vector<int64_t>{0, 3, 5, 1, 2, 4}
                                                             : std::vector<int64_t>{0, 1, 3, 5, 2, 4});
    c.set_output(0, c.reshape(parts, y));
    return std::nullopt;
}

}  // namespace

void define_reshape(Definitions& all) {
    using K = AttributeKind;
    all.push_back(
        {.name = "Reshape", .attributes = {{"shape", K::Ints}}, .infer = infer_reshape_1, .lower = lower_alias});
    all.push_back({.name = "Reshape",
                   .since = 5,
                   .inputs = {2, 2},
                   .types = {{kAny}, {kI64}},
                   .attributes = {{"allowzero", K::Int}},
                   .infer = infer_reshape,
                   .lower = lower_alias});
    all.push_back({.name = "Flatten", .attributes = {{"axis", K::Int}}, .infer = infer_flatten, .lower = lower_alias});
    OperatorDef squeeze{.name = "Squeeze",
                        .attributes = {{"axes", K::Ints}},
                        .infer = infer_squeeze,
                        .lower = lower_alias,
                        .procedure = squeeze_procedure,
                        .is_procedure = [](frontend::ProcedureContext const& p, NodeView const&) {
                            return p.dtype(0) == DataType::String;
                        }};
    OperatorDef unsqueeze{
        .name = "Unsqueeze", .attributes = {{"axes", K::Ints, true}}, .infer = infer_unsqueeze, .lower = lower_alias};
    all.push_back(squeeze);
    all.push_back(unsqueeze);
    for (auto* def : {&squeeze, &unsqueeze})
        def->since = 13, def->inputs.most = 2, def->types = {{kAny}, {kI64}}, def->attributes.clear();
    unsqueeze.inputs.least = 2;
    all.push_back(std::move(squeeze));
    all.push_back(std::move(unsqueeze));
    all.push_back(
        {.name = "Transpose", .attributes = {{"perm", K::Ints}}, .infer = infer_transpose, .lower = lower_transpose});
    OperatorDef to_space{.name = "DepthToSpace",
                         .attributes = {{"blocksize", K::Int, true}},
                         .infer = infer_depth_to_space,
                         .lower = lower_depth_to_space};
    OperatorDef to_depth{.name = "SpaceToDepth",
                         .attributes = {{"blocksize", K::Int, true}},
                         .infer = infer_space_to_depth,
                         .lower = lower_space_to_depth};
    all.push_back(to_space);
    all.push_back(to_depth);
    to_space.since = 11, to_space.attributes.push_back({"mode", K::String});
    to_depth.since = 28, to_depth.attributes.push_back({"mode", K::String});
    all.push_back(std::move(to_space));
    all.push_back(std::move(to_depth));
}

}  // namespace refactor::onnx
