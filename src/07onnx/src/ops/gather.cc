#include "computation/operator.h"
#include "kernel/ops/movement.h"
#include "operator_def.h"

namespace refactor::onnx {

namespace {

Status infer_gather(InferContext& c, NodeView const& n) {
    auto const &x = c.shape(0), &indices = c.shape(1);
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), x.size()));
    Shape shape(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis));
    shape.insert(shape.end(), indices.begin(), indices.end());
    shape.insert(shape.end(), x.begin() + static_cast<std::ptrdiff_t>(axis) + 1, x.end());
    RG_CHECK_STATUS(c.set(0, c.dtype(0), std::move(shape)));
    auto positions = c.known_values(1);
    auto size = x[axis].constant();
    if (!positions || !size) return std::nullopt;
    auto values = x.size() == 1 && !c.input(0).constant ? c.known_values(0) : std::nullopt;
    std::vector<DimExpr> picked;
    for (auto const& position : *positions) {
        auto i = position.constant();
        if (!i) return std::nullopt;
        if (*i < -*size || *i >= *size)
            return invalid("index ", *i, " is out of range for axis ", axis, " of size ", *size);
        if (values) picked.push_back((*values)[static_cast<size_t>(*i < 0 ? *i + *size : *i)]);
    }
    if (values) c.set_values(0, std::move(picked));
    return std::nullopt;
}

Status lower_gather(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), c.shape(0).size()));
    c.emit_output(computation::make_operator(kernel::GatherInfo{static_cast<int64_t>(axis)}), {c.edge(0), c.edge(1)});
    return std::nullopt;
}

/// Refuses indices that are larger than the data on any axis but `axis`; sizes that are not known yet, when they are.
Status expect_within(InferContext& c, size_t axis) {
    for (size_t i = 0; i < c.shape(0).size(); ++i) {
        auto const &have = c.shape(0)[i], &want = c.shape(1)[i];
        if (i == axis || want == have) continue;
        if (have.is_constant() && want.is_constant()) {
            if (*want.constant() <= *have.constant()) continue;
            return invalid("the indices have size ", *want.constant(), " on axis ", i, ", the data only ",
                           *have.constant());
        }
        c.expect({{}, frontend::concat("the size of the indices on axis ", i), want, min(want, have)});
    }
    return std::nullopt;
}

Status infer_gather_elements(InferContext& c, NodeView const& n) {
    auto rank = c.shape(0).size();
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), rank));
    RG_CHECK_STATUS(frontend::expect_rank(c.input(1), rank, rank));
    RG_CHECK_STATUS(expect_within(c, axis));
    return c.set(0, c.dtype(0), c.shape(1));
}

Status lower_gather_elements(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), c.shape(0).size()));
    c.emit_output(computation::make_operator(kernel::GatherElementsInfo{static_cast<int64_t>(axis)}),
                  {c.edge(0), c.edge(1)});
    return std::nullopt;
}

Status infer_gather_nd(InferContext& c, NodeView const& n) {
    auto const &x = c.shape(0), &indices = c.shape(1);
    auto batch = n.integer("batch_dims", 0);
    if (indices.empty() || x.empty()) return invalid("data and indices must have at least one axis");
    auto limit = static_cast<int64_t>(std::min(x.size(), indices.size()));
    if (batch < 0 || batch >= limit) return invalid("batch_dims is ", batch, ", expected 0 to ", limit - 1);
    auto depth = indices.back().constant();
    if (!depth) return unsupported("indices of unknown depth");
    if (*depth < 1 || *depth + batch > static_cast<int64_t>(x.size()))
        return invalid("indices of depth ", *depth, " for data with ", x.size(), " axes, ", batch,
                       " of them batch axes");
    for (int64_t i = 0; i < batch; ++i)
        RG_CHECK_STATUS(
            c.expect_equal(indices[static_cast<size_t>(i)], x[static_cast<size_t>(i)], "a batch size of the indices"));
    Shape shape(indices.begin(), indices.end() - 1);
    shape.insert(shape.end(), x.begin() + batch + *depth, x.end());
    return c.set(0, c.dtype(0), std::move(shape));
}

Status lower_gather_nd(LowerContext& c, NodeView const& n) {
    c.emit_output(computation::make_operator(kernel::GatherNDInfo{n.integer("batch_dims", 0)}), {c.edge(0), c.edge(1)});
    return std::nullopt;
}

Inferred<kernel::ScatterReduction> reduction_of(NodeView const& n) {
    using R = kernel::ScatterReduction;
    auto name = n.text("reduction", "none");
    if (name == "none") return R::None;
    if (name == "add") return R::Add;
    if (name == "mul") return R::Mul;
    if (name == "min" && n.opset >= 18) return R::Min;
    if (name == "max" && n.opset >= 18) return R::Max;
    return Err{invalid("reduction is \"", name, "\", expected none, add, mul, min or max")};
}

Status infer_scatter_elements(InferContext& c, NodeView const& n) {
    auto rank = c.shape(0).size();
    RG_TRY_STATUS(reduction, reduction_of(n));
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), rank));
    for (size_t i = 1; i < 3; ++i) RG_CHECK_STATUS(frontend::expect_rank(c.input(i), rank, rank));
    for (size_t i = 0; i < rank; ++i)
        RG_CHECK_STATUS(c.expect_equal(c.shape(2)[i], c.shape(1)[i], "a size of the updates"));
    RG_CHECK_STATUS(expect_within(c, axis));
    return c.set(0, c.dtype(0), c.shape(0));
}

Status infer_scatter_nd(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(reduction, reduction_of(n));
    auto const &x = c.shape(0), &indices = c.shape(1);
    if (indices.empty() || x.empty()) return invalid("data and indices must have at least one axis");
    auto depth = indices.back().constant();
    if (!depth) return unsupported("indices of unknown depth");
    if (*depth < 1 || *depth > static_cast<int64_t>(x.size()))
        return invalid("indices of depth ", *depth, " for data with ", x.size(), " axes");
    Shape updates(indices.begin(), indices.end() - 1);
    updates.insert(updates.end(), x.begin() + *depth, x.end());
    RG_CHECK_STATUS(frontend::expect_rank(c.input(2), updates.size(), updates.size()));
    for (size_t i = 0; i < updates.size(); ++i)
        RG_CHECK_STATUS(c.expect_equal(c.shape(2)[i], updates[i], "a size of the updates"));
    return c.set(0, c.dtype(0), x);
}

Status lower_scatter(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(reduction, reduction_of(n));
    kernel::ScatterInfo info;
    info.reduction = reduction;
    if (n.op_type != "ScatterND") {
        RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), c.shape(0).size()));
        info.axis = static_cast<int64_t>(axis);
    }
    c.emit_output(computation::make_operator(info), {c.edge(0), c.edge(1), c.edge(2)});
    return std::nullopt;
}

}  // namespace

void define_gather(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "Gather",
                   .inputs = {2, 2},
                   .types = {{kAny}, {kIndices}},
                   .attributes = {{"axis", K::Int}},
                   .infer = infer_gather,
                   .lower = lower_gather});
    all.push_back({.name = "GatherElements",
                   .since = 11,
                   .inputs = {2, 2},
                   .types = {{kAny}, {kIndices}},
                   .attributes = {{"axis", K::Int}},
                   .infer = infer_gather_elements,
                   .lower = lower_gather_elements});
    all.push_back({.name = "GatherND",
                   .since = 11,
                   .inputs = {2, 2},
                   .types = {{kAny}, {kI64}},
                   .attributes = {{"batch_dims", K::Int}},
                   .infer = infer_gather_nd,
                   .lower = lower_gather_nd});
    OperatorDef scatter{.name = "Scatter",
                        .since = 9,
                        .inputs = {3, 3},
                        .types = {{kAny, 'T'}, {kIndices}, {kAny, 'T'}},
                        .attributes = {{"axis", K::Int}},
                        .infer = infer_scatter_elements,
                        .lower = lower_scatter};
    all.push_back(scatter);
    scatter.since = 11, scatter.infer = nullptr;
    all.push_back(scatter);
    scatter.name = "ScatterElements", scatter.infer = infer_scatter_elements;
    scatter.attributes.push_back({"reduction", K::String});
    all.push_back(scatter);
    scatter.name = "ScatterND", scatter.infer = infer_scatter_nd;
    scatter.types[1] = {kI64}, scatter.attributes = {{"reduction", K::String}};
    all.push_back(std::move(scatter));
}

}  // namespace refactor::onnx
