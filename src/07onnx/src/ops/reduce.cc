#include "kernel/ops/reduce.h"

#include "computation/operator.h"
#include "operator_def.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace refactor::onnx {

namespace {

using kernel::ReduceKind;

struct Reduction {
    std::string_view name;
    ReduceKind kind;
    int64_t axes_input_since;  ///< before, axes are an attribute
};

constexpr Reduction kReductions[]{
    {"ReduceL1", ReduceKind::L1, 18},         {"ReduceL2", ReduceKind::L2, 18},
    {"ReduceLogSum", ReduceKind::LogSum, 18}, {"ReduceLogSumExp", ReduceKind::LogSumExp, 18},
    {"ReduceMax", ReduceKind::Max, 18},       {"ReduceMean", ReduceKind::Mean, 18},
    {"ReduceMin", ReduceKind::Min, 18},       {"ReduceProd", ReduceKind::Prod, 18},
    {"ReduceSum", ReduceKind::Sum, 13},       {"ReduceSumSquare", ReduceKind::SumSquare, 18},
};

Reduction const& find_reduction(std::string_view name) {
    return *std::find_if(std::begin(kReductions), std::end(kReductions), [&](auto const& r) { return r.name == name; });
}

/// The axes to reduce, sorted; empty only if nothing is to be reduced.
Inferred<std::vector<size_t>> reduced_axes(InferContext& c, NodeView const& n) {
    std::vector<int64_t> axes = n.integers("axes");
    if (c.has(1)) {
        RG_TRY(given, c.integers(1, "axes"));
        axes = given;
    }
    auto rank = c.shape(0).size();
    if (axes.empty() && n.integer("noop_with_empty_axes", 0) == 0) {
        axes.resize(rank);
        std::iota(axes.begin(), axes.end(), 0);
    }
    return frontend::normalize_axes(axes, rank);
}

/// Sum, product, minimum and maximum of all elements of a list of sizes.
std::optional<DimExpr> reduced_value(ReduceKind kind, std::vector<DimExpr> const& values) {
    if (values.empty()) return std::nullopt;
    auto result = values[0];
    auto rest = std::span(values).subspan(1);
    switch (kind) {
        case ReduceKind::Sum:
            for (auto const& value : rest) result = result + value;
            return result;
        case ReduceKind::Prod:
            for (auto const& value : rest) result = result * value;
            return result;
        case ReduceKind::Max:
            for (auto const& value : rest) result = max(result, value);
            return result;
        case ReduceKind::Min:
            for (auto const& value : rest) result = min(result, value);
            return result;
        default:
            return std::nullopt;
    }
}

Status infer_reduce(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(axes, reduced_axes(c, n));
    bool keep = n.integer("keepdims", 1) != 0;
    RG_CHECK_STATUS(c.set(0, c.dtype(0), frontend::without_axes(c.shape(0), axes, keep)));
    if (c.shape(0).size() != 1 || axes.empty() || c.input(0).constant) return std::nullopt;
    auto values = c.known_values(0);
    auto result = values ? reduced_value(find_reduction(n.op_type).kind, *values) : std::nullopt;
    if (result) c.set_values(0, {*result});
    return std::nullopt;
}

Status lower_reduce(LowerContext& c, NodeView const& n) {
    auto kind = find_reduction(n.op_type).kind;
    auto view = c.view();
    RG_TRY_STATUS(reduced, reduced_axes(view, n));
    Dims axes(reduced.begin(), reduced.end());
    bool identity = kind == ReduceKind::Sum || kind == ReduceKind::Mean || kind == ReduceKind::Max ||
                    kind == ReduceKind::Min || kind == ReduceKind::Prod;
    if (axes.empty() && identity)
        c.set_output(0, c.edge(0));
    else
        c.emit_output(computation::make_operator(kernel::ReduceInfo{kind, axes}), {c.edge(0)});
    return std::nullopt;
}

Status infer_arg_reduce(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), c.shape(0).size()));
    if (c.shape(0)[axis] == DimExpr(0)) return invalid("the reduced axis ", axis, " is empty");
    return c.set(0, DataType::I64, frontend::without_axes(c.shape(0), {axis}, n.integer("keepdims", 1) != 0));
}

Status lower_arg_reduce(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), c.shape(0).size()));
    kernel::ArgReduceInfo info;
    info.min = n.op_type == "ArgMin", info.select_last_index = n.integer("select_last_index", 0) != 0;
    info.axis = static_cast<int64_t>(axis);
    c.emit_output(computation::make_operator(info), {c.edge(0)});
    return std::nullopt;
}

Status infer_softmax(InferContext& c, NodeView const& n) {
    auto rank = c.shape(0).size();
    // Before opset 13 the axis splits the tensor into a matrix and may lie behind the last one.
    auto axis = n.integer("axis", n.opset < 13 ? 1 : -1);
    if (n.opset >= 13 || axis != static_cast<int64_t>(rank)) {
        RG_TRY_STATUS(checked, frontend::normalize_axis(axis, rank));
    }
    return c.set(0, c.dtype(0), c.shape(0));
}

Status lower_softmax(LowerContext& c, NodeView const& n) {
    auto rank = static_cast<int64_t>(c.shape(0).size());
    kernel::SoftmaxInfo info;
    info.axis = n.integer("axis", n.opset < 13 ? 1 : -1);
    if (info.axis < 0) info.axis += rank;
    info.axes = n.opset < 13 ? rank - info.axis : 1;
    info.log = n.op_type == "LogSoftmax";
    // Behind the last axis every element is a row of its own.
    auto shape = c.shape(0);
    if (info.axis == rank) shape.emplace_back(1), info.axes = 1;
    auto* rows = c.emit(computation::make_operator(info), {c.reshape(c.edge(0), shape)}, c.dtype(0), shape);
    c.set_output(0, c.reshape(rows, c.shape(0)));
    return std::nullopt;
}

}  // namespace

void define_reduce(Definitions& all) {
    using K = AttributeKind;
    for (auto const& reduction : kReductions) {
        OperatorDef def{.name = reduction.name,
                        .types = {{kNumbers}},
                        .attributes = {{"keepdims", K::Int}, {"axes", K::Ints}},
                        .infer = infer_reduce,
                        .lower = lower_reduce};
        all.push_back(def);
        def.since = reduction.axes_input_since, def.inputs = {1, 2};
        def.types = {{kNumbers | kBool}, {kI64}};
        def.attributes[1] = {"noop_with_empty_axes", K::Int};
        all.push_back(std::move(def));
    }
    for (auto name : {"ArgMax", "ArgMin"})
        all.push_back({.name = name,
                       .types = {{kNumbers}},
                       .attributes = {{"axis", K::Int}, {"keepdims", K::Int}, {"select_last_index", K::Int}},
                       .infer = infer_arg_reduce,
                       .lower = lower_arg_reduce});
    for (auto name : {"LogSoftmax", "Softmax"})
        all.push_back({.name = name,
                       .types = {{kFloats}},
                       .attributes = {{"axis", K::Int}},
                       .infer = infer_softmax,
                       .lower = lower_softmax});
}

}  // namespace refactor::onnx
