#include "passes/look_up_one_hots.h"

#include "common/half.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "mem_manager/blob.h"
#include "passes/constants.h"
#include "passes/expression.h"
#include "passes/fold_constants.h"

namespace refactor::computation {

using kernel::ExprOp;

namespace {

/// Numbers 0, 1, … along the last axis, all other axes 1. Returns how many, or 0.
int64_t range_of(EdgePtr edge) {
    auto const& value = edge->value;
    auto count = element_count(value.shape).constant();
    if (!value.constant || !count || *count < 1 || value.shape.back() != DimExpr(*count)) return 0;
    std::vector<int64_t> numbers(static_cast<size_t>(*count));
    if (!convert(value.dtype, value.constant->data(), DataType::I64, numbers.data(), *count)) return 0;
    for (int64_t i = 0; i < *count; ++i)
        if (numbers[static_cast<size_t>(i)] != i) return 0;
    return *count;
}

/// One-hot rows: indices compared with the numbers of all columns.
struct OneHot {
    Expression indices;
    Shape shape;  ///< of the indices, [..., 1]
    int64_t depth = 0;

    /// `depth` is 0 if `rows` are none.
    explicit OneHot(EdgePtr rows) : shape(rows->value.shape) {
        auto* node = rows->producer();
        if (!node || !info_of<kernel::ElementwiseInfo>(*node->value.op) || rows->value.dtype != DataType::F32) return;
        auto expression = Expression::of(node);
        expression.normalize();
        if (expression.outputs.size() != 1 || shape.size() < 2) return;
        auto columns = shape.back();
        shape.back() = DimExpr(1);
        auto const& cast = expression.code[expression.outputs[0]];
        auto const& equal = expression.code[cast.operands[0]];
        if (cast.op != ExprOp::Cast || equal.op != ExprOp::Equal) return;
        for (int side = 0; side < 2; ++side) {
            auto* range = expression.input(equal.operands[1 - side]);
            auto count = range && !range->value.shape.empty() ? range_of(range) : 0;
            indices = expression, indices.outputs = {equal.operands[side]};
            indices.normalize();
            if (count > 0 && columns == DimExpr(count) && is_column()) depth = count;
            if (depth) return;
        }
    }

private:
    /// The program has integers, all of its inputs one column, and one of them the shape of the result.
    bool is_column() const {
        auto dtype = indices.code[indices.outputs[0]].dtype;
        bool whole = false;
        for (auto* edge : indices.inputs) {
            if (edge->value.shape.empty() || edge->value.shape.back() != DimExpr(1)) return false;
            whole |= edge->value.shape == shape;
        }
        return whole && (dtype == DataType::I32 || dtype == DataType::I64);
    }
};

/// The node that computes what `product` makes of every row of the identity, and of zeros.
NodePtr table_of(Graph& graph, NodePtr product, int64_t depth) {
    std::vector<float> rows(static_cast<size_t>((depth + 1) * depth));
    for (int64_t i = 0; i < depth; ++i) rows[static_cast<size_t>(i * depth + i)] = 1;
    auto name = product->value.name + ".table";
    Shape shape{DimExpr(depth + 1), DimExpr(depth)};
    std::vector<EdgePtr> inputs{add_constant(graph, name + ".rows", shape, rows)};
    for (size_t i = 1; i < product->inputs().size(); ++i) inputs.push_back(product->input(i));
    auto* node = graph.insert({name, product->value.op}, inputs);
    shape.back() = product->output()->value.shape.back();
    node->output()->value = {name, DataType::F32, std::move(shape), {}, nullptr, false};
    return node;
}

/// Indices without the last axis, and `depth` in place of those that are none of [0, depth).
EdgePtr rows_of(Graph& graph, std::string const& name, OneHot const& hot) {
    auto e = hot.indices;
    auto x = e.outputs[0];
    auto dtype = e.code[x].dtype;
    auto number = [&](int64_t value) {
        return e.append(
            {.op = ExprOp::Constant, .dtype = dtype, .value = static_cast<double>(value), .integer = value});
    };
    auto apply = [&](ExprOp op, DataType type, uint16_t a, uint16_t b, uint16_t c = 0) {
        return e.append({.op = op, .dtype = type, .operands = {a, b, c}});
    };
    auto zero = number(0), end = number(hot.depth);
    auto inside = apply(ExprOp::GreaterEqual, DataType::Bool, x, zero);
    inside = apply(ExprOp::And, DataType::Bool, inside, apply(ExprOp::Less, DataType::Bool, x, end));
    e.outputs = {apply(ExprOp::Where, dtype, inside, x, end)};
    auto* node = graph.insert({name + ".rows", make_operator(kernel::ElementwiseInfo{e.code, e.outputs})}, e.inputs);
    node->output()->value = {name + ".rows", dtype, hot.shape, {}, nullptr, false};
    auto* reshape = graph.insert({name + ".rows/reshape", std::make_shared<Reshape>()}, {node->output()});
    auto shape = hot.shape;
    shape.pop_back();
    reshape->output()->value = {name + ".rows/reshaped", dtype, std::move(shape), {}, nullptr, false};
    return reshape->output();
}

bool look_up(Graph& graph, NodePtr product) {
    auto const* info = info_of<kernel::MatMulInfo>(*product->value.op);
    if (!info || info->trans_a || info->epilogue.residual || product->output()->value.dtype != DataType::F32)
        return false;
    auto* rows = product->input(0);
    auto* b = product->input(1);
    OneHot hot(rows);
    if (!hot.depth || rows->value.keep || b->value.shape.size() != 2) return false;
    for (size_t i = 1; i < product->inputs().size(); ++i)
        if (!product->input(i) || !product->input(i)->value.constant) return false;
    auto count = element_count(hot.shape).constant();
    if (count && *count <= hot.depth) return false;
    auto* table = table_of(graph, product, hot.depth);
    auto* lookup = graph.insert({product->value.name, make_operator(kernel::GatherInfo{0})},
                                {table->output(), rows_of(graph, product->value.name, hot)});
    if (!fold_constant(graph, table)) {
        graph.erase_unused(lookup);
        return false;
    }
    lookup->output()->value = product->output()->value;
    graph.replace_all_uses(product->output(), lookup->output());
    graph.erase_unused(product);
    return true;
}

}  // namespace

int look_up_one_hots(Model& model, PassContext const&) {
    int changed = 0;
    for (auto* node : model.graph.topological()) changed += look_up(model.graph, node);
    return changed;
}

}  // namespace refactor::computation
