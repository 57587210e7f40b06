#include "computation/operator.h"
#include "kernel/ops/movement.h"
#include "operator_def.h"

namespace refactor::onnx {

namespace {

/// Required since opset 4, before with a default.
int64_t concat_axis(NodeView const& n) { return n.integer("axis", 1); }

Status infer_concat(InferContext& c, NodeView const& n) {
    auto shape = c.shape(0);
    RG_TRY_STATUS(axis, frontend::normalize_axis(concat_axis(n), shape.size()));
    std::vector<DimExpr> values;
    bool known = true, symbolic = false;
    for (size_t i = 0; i < c.input_count(); ++i) {
        auto const& x = c.shape(i);
        RG_CHECK_STATUS(frontend::expect_rank(c.input(i), shape.size(), shape.size()));
        for (size_t k = 0; k < x.size(); ++k)
            if (k != axis)
                RG_CHECK_STATUS(
                    c.expect_equal(x[k], shape[k], frontend::concat("size ", k, " of \"", c.input(i).name, "\"")));
        // The first constant tells the size of the others.
        for (size_t k = 0; k < x.size(); ++k)
            if (k != axis && x[k].is_constant()) shape[k] = x[k];
        if (i) shape[axis] = shape[axis] + x[axis];
        symbolic |= !c.input(i).constant;
        auto part = known ? c.known_values(i) : std::nullopt;
        known = part.has_value();
        if (part) values.insert(values.end(), part->begin(), part->end());
    }
    RG_CHECK_STATUS(c.set(0, c.dtype(0), std::move(shape)));
    if (known && symbolic && axis == 0) c.set_values(0, std::move(values));
    return std::nullopt;
}

Status lower_concat(LowerContext& c, NodeView const& n) {
    if (c.input_count() == 1) {
        c.set_output(0, c.edge(0));
        return std::nullopt;
    }
    RG_TRY_STATUS(axis, frontend::normalize_axis(concat_axis(n), c.shape(0).size()));
    std::vector<LowerContext::Edge> edges;
    for (size_t i = 0; i < c.input_count(); ++i) edges.push_back(c.edge(i));
    c.emit_output(computation::make_operator(kernel::ConcatInfo{static_cast<int64_t>(axis)}), edges);
    return std::nullopt;
}

/// Sizes of `count` parts that are equal but for the last, which before opset 18 is no exception. Where
/// ceil(size / count) parts exhaust the axis early, the rest are empty, as numpy's slices would be.
Inferred<std::vector<DimExpr>> equal_parts(NodeView const& n, DimExpr const& size, int64_t count) {
    if (n.opset < 18) {
        if (auto number = size.constant(); number && *number % count)
            return Err{invalid("the size ", *number, " cannot be split into ", count, " equal parts")};
        return std::vector<DimExpr>(static_cast<size_t>(count), floor_div(size, count));
    }
    auto part = ceil_div(size, count);
    std::vector<DimExpr> parts{part};
    for (int64_t i = 1; i < count; ++i) {
        auto rest = size - part * i;
        // Of two parts the second one never is larger than the first, nor negative.
        parts.push_back(count == 2 ? rest : max(0, min(part, rest)));
    }
    return parts;
}

/// Sizes of the parts: given, or equal.
Inferred<std::vector<DimExpr>> part_sizes(InferContext& c, NodeView const& n, DimExpr const& size, size_t outputs) {
    std::vector<DimExpr> parts;
    if (c.has(1)) {
        RG_TRY(given, c.values(1, "split"));
        parts = given;
    } else if (n.has("split")) {
        for (auto part : n.integers("split")) parts.emplace_back(part);
    } else {
        auto count = n.integer("num_outputs", static_cast<int64_t>(outputs));
        if (count != static_cast<int64_t>(outputs))
            return Err{invalid("num_outputs is ", count, ", the node has ", outputs)};
        return equal_parts(n, size, count);
    }
    if (parts.size() != outputs)
        return Err{invalid("split has ", parts.size(), " entries, the node has ", outputs, " outputs")};
    DimExpr sum;
    for (auto const& part : parts) {
        if (part.constant().value_or(0) < 0) return Err{invalid("split has the negative entry ", *part.constant())};
        sum = sum + part;
    }
    if (auto failure = c.expect_equal(sum, size, "the sum of split")) return Err{*failure};
    return parts;
}

Status infer_split(InferContext& c, NodeView const& n) {
    auto const& x = c.shape(0);
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), x.size()));
    RG_TRY_STATUS(parts, part_sizes(c, n, x[axis], c.output_count()));
    auto values = x.size() == 1 && !c.input(0).constant ? c.known_values(0) : std::nullopt;
    size_t at = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
        auto shape = x;
        shape[axis] = parts[i];
        RG_CHECK_STATUS(c.set(i, c.dtype(0), std::move(shape)));
        auto count = parts[i].constant();
        if (!values || !count || at + static_cast<size_t>(*count) > values->size()) continue;
        auto begin = values->begin() + static_cast<std::ptrdiff_t>(at);
        c.set_values(i, {begin, begin + *count});
        at += static_cast<size_t>(*count);
    }
    return std::nullopt;
}

Status lower_split(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), c.shape(0).size()));
    std::vector<LowerContext::Spec> outputs;
    for (size_t i = 0; i < c.output_count(); ++i) outputs.push_back({c.dtype(0), *c.output(i).shape});
    auto edges =
        c.emit_all(computation::make_operator(kernel::SplitInfo{static_cast<int64_t>(axis)}), {c.edge(0)}, outputs);
    for (size_t i = 0; i < edges.size(); ++i) c.set_output(i, edges[i]);
    return std::nullopt;
}

}  // namespace

void define_concat(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "Concat",
                   .inputs = {1, kVariadic},
                   .types = {{kAny, 'T'}},
                   .attributes = {{"axis", K::Int}},
                   .infer = infer_concat,
                   .lower = lower_concat});
    all.push_back({.name = "Concat",
                   .since = 4,
                   .inputs = {1, kVariadic},
                   .types = {{kAny, 'T'}},
                   .attributes = {{"axis", K::Int, true}},
                   .infer = infer_concat,
                   .lower = lower_concat});
    OperatorDef split{.name = "Split",
                      .inputs = {1, 2},
                      .outputs = {1, kVariadic},
                      .types = {{kAny}, {kAny}},
                      .attributes = {{"axis", K::Int}, {"split", K::Ints}},
                      .infer = infer_split,
                      .lower = lower_split};
    all.push_back(split);
    split.since = 2, split.inputs = {1, 1};
    all.push_back(split);
    split.since = 13, split.inputs = {1, 2}, split.types[1] = {kI64}, split.attributes.pop_back();
    all.push_back(split);
    split.since = 18, split.attributes.push_back({"num_outputs", K::Int});
    all.push_back(std::move(split));
}

}  // namespace refactor::onnx
