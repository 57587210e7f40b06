#pragma once
#include "frontend/expression.h"
#include "frontend/operator.h"
#include "frontend/shape_rules.h"
#include "kernel/ops/reduce.h"
#include "refusal.h"
#include "scalar.h"
#include "term.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// One call of an operator: its arguments, and what it is composed of.
///
/// A pnnx operator is one function, `void build(Call&)`, that reads arguments and emits semantic operators. Inference
/// runs it on a scratch graph and keeps types and shapes; lowering runs it again on the real one. Example, `F.softmin`:
///
///     void build_softmin(Call& c) {
///         auto* x = c.tensor("input");
///         c.set(c.softmax(c.unary(ExprOp::Neg, x), c.axis(c.integer("dim"), c.rank(x))));
///     }
///
/// What cannot be done leaves a build function as a `Refusal`, thrown here and caught by the operator alone, so that
/// compositions read as formulas; outside of this layer refusals are values as everywhere.
namespace refactor::pnnx {

using frontend::Expression;
using frontend::LowerContext;
using kernel::ExprOp;
using Edge = LowerContext::Edge;

/// Bounds beyond any size: how pnnx writes "to the end" (it keeps 32 bits of an integer).
inline constexpr int64_t kEnd = 2147483647;

/// An argument with a value: nothing, a number or size, text, a tensor, or a list.
struct Item {
    std::variant<std::monostate, bool, Scalar, std::string, Edge, std::vector<Item>> value;

    bool is_none() const { return value.index() == 0; }
    Edge const* edge() const { return std::get_if<Edge>(&value); }
    std::vector<Item> const* list() const { return std::get_if<std::vector<Item>>(&value); }
};

/// Arguments of one node. Named ones are parameters, `$named` inputs and `@attributes`; names of positional ones follow
/// from the operator's signature.
struct Arguments {
    std::vector<std::pair<std::string, Term>> named;
    std::vector<Term> positional;
    std::vector<bool> wanted;  ///< by output: somebody reads it

    Term const* find(std::string_view name) const;
};

class Call {
    LowerContext& context_;
    Arguments const& arguments_;
    std::vector<std::optional<std::vector<DimExpr>>> values_;
    std::vector<kernel::SizeCondition> conditions_;

    Scalar scalar_of(Item const& item, std::string_view what) const;

public:
    std::string_view const type;

    Call(LowerContext& context, Arguments const& arguments, std::string_view operator_type)
        : context_(context), arguments_(arguments), values_(context.output_count()), type(operator_type) {}

    LowerContext& context() { return context_; }
    SymbolTable const& symbols() const { return context_.symbols(); }
    std::string text_of(Shape const& shape) const { return refactor::to_string(shape, symbols()); }

    // Arguments. An argument that is missing or None is the fallback; without one it is an error.
    Term const* argument(std::string_view name) const { return arguments_.find(name); }
    std::vector<Term> const& positional() const { return arguments_.positional; }
    bool has(std::string_view name) const;
    /// Whether the argument is there and a tensor, not a number, list or size.
    bool is_tensor(std::string_view name) const;
    Item evaluate(Term const& term);
    Item item(std::string_view name);
    Edge tensor(std::string_view name);
    Edge tensor_or_null(std::string_view name) { return has(name) ? tensor(name) : nullptr; }
    /// All tensors of a variadic operator, given one by one or as a list.
    std::vector<Edge> tensors();
    int64_t integer(std::string_view name);
    int64_t integer(std::string_view name, int64_t fallback) { return has(name) ? integer(name) : fallback; }
    double number(std::string_view name);
    double number(std::string_view name, double fallback) { return has(name) ? number(name) : fallback; }
    bool flag(std::string_view name, bool fallback);
    std::string text(std::string_view name, std::string_view fallback);
    DimExpr size(std::string_view name);
    DimExpr size(std::string_view name, DimExpr fallback) { return has(name) ? size(name) : fallback; }
    /// A list; a single number is a list of one.
    std::vector<DimExpr> sizes(std::string_view name);
    std::vector<int64_t> integers(std::string_view name);
    /// A list of `count` numbers; one number stands for all. Missing: all `fallback`.
    std::vector<int64_t> integers(std::string_view name, size_t count, int64_t fallback);
    std::vector<double> numbers(std::string_view name);
    /// An argument such as `torch.float`.
    DataType dtype(std::string_view name, DataType fallback);
    /// An item as a tensor: sizes are written to memory, numbers become scalars of `dtype` (Undefined: the type that
    /// torch gives a Python number).
    Edge edge_of(Item const& item, DataType dtype = DataType::Undefined);
    Edge edge_of(Term const& term);
    /// What is known of a constant or size-carrying operand; its elements as expressions.
    std::optional<std::vector<DimExpr>> known_values(size_t operand) const;
    frontend::Tensor const& operand(size_t i) const;
    /// The constant behind an operand, or null.
    frontend::Tensor const* constant(std::string_view name) const;

    // Results.
    size_t output_count() const { return context_.output_count(); }
    /// Whether there is such an output and somebody reads it; only then it must be set.
    bool wants(size_t i) const { return i < output_count() && (i >= arguments_.wanted.size() || arguments_.wanted[i]); }
    void set(Edge edge) { context_.set_output(0, edge); }
    /// Ignored if there is no such output.
    void set(size_t i, Edge edge);
    /// Output 0 is `edge`, whose elements are known.
    void set_values(Edge edge, std::vector<DimExpr> values);
    std::optional<std::vector<DimExpr>>& values(size_t i) { return values_[i]; }

    // Shapes.
    static Shape const& shape(Edge edge) { return edge->value.shape; }
    static size_t rank(Edge edge) { return edge->value.shape.size(); }
    static DataType type_of(Edge edge) { return edge->value.dtype; }
    size_t axis(int64_t axis, size_t rank) const { return take(frontend::normalize_axis(axis, rank)); }
    /// The argument as axes, counted from the front, sorted; missing, None or empty: all.
    std::vector<size_t> axes(std::string_view name, size_t rank);
    Shape broadcast(std::vector<Shape> const& shapes) const {
        return take(frontend::broadcast_shapes(shapes, symbols()));
    }
    void expect_rank(Edge edge, size_t least, size_t most, std::string_view what) const;
    /// Refuses numbers that differ; where a size is not known yet, the run is refused if they do.
    void expect_equal(DimExpr const& actual, DimExpr const& expected, std::string_view what) {
        check(frontend::expect_equal(actual, expected, what, symbols()));
        if (!(actual == expected)) conditions_.push_back({{}, std::string(what), actual, expected});
    }
    /// What the run has to check.
    std::vector<kernel::SizeCondition> const& conditions() const { return conditions_; }

    // Composition.
    template <class Info>
    Edge emit(Info info, std::vector<Edge> const& inputs, DataType dtype, Shape shape,
              std::vector<DimExpr> params = {}) {
        return context_.emit(computation::make_operator(std::move(info), std::move(params)), inputs, dtype,
                             std::move(shape));
    }
    template <class Info>
    std::vector<Edge> emit_all(Info info, std::vector<Edge> const& inputs, std::vector<LowerContext::Spec> outputs) {
        return context_.emit_all(computation::make_operator(std::move(info)), inputs, std::move(outputs));
    }
    /// `f(expression, values of the inputs)` elementwise, broadcast, as one node.
    template <class F>
    Edge map(std::vector<Edge> const& inputs, F f) {
        Expression e;
        std::vector<Expression::Value> values;
        std::vector<Shape> shapes;
        for (auto* input : inputs) {
            values.push_back(e.input(static_cast<uint16_t>(values.size()), input->value.dtype));
            shapes.push_back(input->value.shape);
        }
        auto result = f(e, values);
        auto dtype = e.dtype(result);
        return emit(e.finish(result), inputs, dtype, broadcast(shapes));
    }
    Edge unary(ExprOp op, Edge x, double alpha = 0, double beta = 0);
    Edge binary(ExprOp op, Edge a, Edge b);
    Edge cast(Edge x, DataType dtype) { return context_.cast(x, dtype); }
    Edge scalar(DataType dtype, double value) { return context_.scalar(dtype, value); }
    /// A list of f32, or one number.
    Edge floats(std::vector<float> const& values, Dims const& dims) { return context_.floats(values, dims); }
    Edge integers_edge(std::vector<int64_t> const& values);
    Edge filled(DataType dtype, double value, Shape shape);
    Edge reshape(Edge x, Shape shape) { return context_.reshape(x, std::move(shape)); }
    Edge transpose(Edge x, std::vector<int64_t> const& perm);
    Edge swap_axes(Edge x, size_t a, size_t b);
    Edge expand(Edge x, Shape shape);
    Edge unsqueeze(Edge x, size_t axis);
    Edge squeeze(Edge x, size_t axis);
    Edge slice(Edge x, size_t axis, DimExpr const& start, DimExpr const& end, int64_t step = 1);
    Edge concat(std::vector<Edge> const& parts, size_t axis);
    Edge gather(Edge x, Edge indices, size_t axis);
    Edge reduce(kernel::ReduceKind kind, Edge x, std::vector<size_t> const& axes, bool keep);
    Edge softmax(Edge x, size_t axis, bool log = false);
    /// Of numpy's matmul; `bias` [N] is added.
    Edge matmul(Edge a, Edge b, bool trans_b = false, Edge bias = nullptr);
    /// start, start + step, … as i64.
    Edge range(DimExpr const& start, DimExpr const& step, DimExpr const& length);
    /// A number, or a size that is known at run time, as a scalar.
    Edge size_edge(Scalar const& scalar, DataType dtype);
};

}  // namespace refactor::pnnx
