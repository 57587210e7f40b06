#include "computation/operator.h"
#include "frontend/expression.h"
#include "operator_def.h"

// Optimizer steps of ai.onnx.preview.training: Adagrad, Adam, Momentum. Inputs are R, T and then groups of tensors: all
// X, all gradients, all states. Gradient is not here: it is no operator but a request to differentiate a graph.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;
using Edge = LowerContext::Edge;

size_t states_of(NodeView const& n) { return n.op_type == "Adam" ? 2 : 1; }

Status infer_optimizer(InferContext& c, NodeView const& n) {
    auto groups = 2 + states_of(n), tensors = c.input_count() - 2;
    if (tensors % groups || !tensors)
        return invalid(tensors, " tensors, expected a multiple of ", groups, " (values, gradients, states)");
    auto count = tensors / groups;
    if (c.output_count() != count * (groups - 1))
        return invalid(c.output_count(), " outputs, expected ", count * (groups - 1));
    for (size_t i = 0; i < 2; ++i)
        if (!c.shape(i).empty() && c.shape(i) != Shape{DimExpr(1)})
            return invalid("\"", c.input(i).name, "\" has the shape ", c.text(c.shape(i)), ", expected a scalar");
    if (auto mode = n.text("mode", "standard"); mode != "standard" && mode != "nesterov")
        return invalid("mode is \"", mode, "\", expected standard or nesterov");
    for (size_t i = 2; i < c.input_count(); ++i) {
        auto const& x = c.input(2 + (i - 2) % count);
        if (!c.has(i)) return invalid("the required input ", i, " is omitted");
        if (c.dtype(i) != x.dtype)
            return invalid("input ", i, " is ", name_of(c.dtype(i)), ", expected ", name_of(x.dtype), " as \"", x.name,
                           "\"");
        RG_CHECK_STATUS(frontend::expect_rank(c.input(i), x.rank(), x.rank()));
        for (size_t k = 0; k < x.rank(); ++k)
            RG_CHECK_STATUS(
                c.expect_equal(c.shape(i)[k], (*x.shape)[k], frontend::concat("size ", k, " of input ", i)));
    }
    for (size_t i = 0; i < c.output_count(); ++i)
        RG_CHECK_STATUS(c.set(i, c.dtype(2 + i % count), c.shape(2 + i % count)));
    return std::nullopt;
}

/// Writes the program of one step for one tensor. Inputs of the program: R, T as f64 scalars; X, gradient, states.
class Step {
    Expression e_;
    DataType dtype_;
    NodeView const& n_;

    using Value = Expression::Value;
    Value op(ExprOp op, Value a, Value b) { return e_.binary(op, a, b); }
    Value add(Value a, Value b) { return op(ExprOp::Add, a, b); }
    Value mul(Value a, Value b) { return op(ExprOp::Mul, a, b); }
    Value sub(Value a, Value b) { return op(ExprOp::Sub, a, b); }
    Value div(Value a, Value b) { return op(ExprOp::Div, a, b); }
    Value number(double value) { return e_.constant(dtype_, value); }
    Value wide(double value) { return e_.constant(DataType::F64, value); }
    double attribute(std::string_view name, float fallback) { return static_cast<double>(n_.number(name, fallback)); }

    Value rate() { return e_.input(0, DataType::F64); }
    Value count() { return e_.input(1, DataType::F64); }
    Value gradient() {
        return add(mul(number(attribute("norm_coefficient", 0)), e_.input(2, dtype_)), e_.input(3, dtype_));
    }
    /// `power` to the number of updates.
    Value raised(double power) { return op(ExprOp::Pow, wide(power), count()); }
    Value running(Value state, double keep, Value fresh) {
        return add(mul(number(keep), state), mul(number(1 - keep), fresh));
    }

public:
    Step(DataType dtype, NodeView const& n) : dtype_(dtype), n_(n) {}

    /// Results in the order of the outputs; `which` of them is finished.
    kernel::ElementwiseInfo adagrad(size_t which) {
        auto g = gradient(), h = add(e_.input(4, dtype_), mul(g, g));
        if (which == 1) return e_.finish(h);
        auto adaptive = add(e_.unary(ExprOp::Sqrt, h), number(attribute("epsilon", 1e-6f)));
        auto r = div(rate(), add(wide(1), mul(count(), wide(attribute("decay_factor", 0)))));
        return e_.finish(sub(e_.input(2, dtype_), div(mul(e_.cast(r, dtype_), g), adaptive)));
    }
    kernel::ElementwiseInfo adam(size_t which) {
        auto alpha = attribute("alpha", 0.9f), beta = attribute("beta", 0.999f);
        auto g = gradient(), v = running(e_.input(4, dtype_), alpha, g);
        auto h = running(e_.input(5, dtype_), beta, mul(g, g));
        if (which == 1) return e_.finish(v);
        if (which == 2) return e_.finish(h);
        auto root = add(e_.unary(ExprOp::Sqrt, h), number(attribute("epsilon", 1e-6f)));
        auto adjusted =
            div(mul(rate(), e_.unary(ExprOp::Sqrt, sub(wide(1), raised(beta)))), sub(wide(1), raised(alpha)));
        auto r = e_.select(op(ExprOp::Greater, count(), wide(0)), adjusted, rate());
        auto x = sub(e_.input(2, dtype_), div(mul(e_.cast(r, dtype_), v), root));
        return e_.finish(mul(number(1 - attribute("norm_coefficient_post", 0)), x));
    }
    kernel::ElementwiseInfo momentum(size_t which) {
        auto g = gradient(), first = op(ExprOp::Greater, count(), wide(0));
        auto beta = e_.select(first, wide(attribute("beta", 1)), wide(1));
        auto alpha = number(attribute("alpha", 0));
        auto v = add(mul(alpha, e_.input(4, dtype_)), mul(e_.cast(beta, dtype_), g));
        if (which == 1) return e_.finish(v);
        auto direction = n_.text("mode", "standard") == "nesterov" ? add(g, mul(alpha, v)) : v;
        return e_.finish(sub(e_.input(2, dtype_), mul(e_.cast(rate(), dtype_), direction)));
    }
};

Status lower_optimizer(LowerContext& c, NodeView const& n) {
    auto states = states_of(n), count = (c.input_count() - 2) / (2 + states);
    auto* rate = c.cast(c.reshape(c.edge(0), {}), DataType::F64);
    auto* updates = c.cast(c.reshape(c.edge(1), {}), DataType::F64);
    for (size_t i = 0; i < count * (1 + states); ++i) {
        auto tensor = i % count, which = i / count;
        std::vector<Edge> edges{rate, updates};
        for (size_t k = 0; k < 2 + states; ++k) edges.push_back(c.edge(2 + k * count + tensor));
        Step step(c.dtype(2 + tensor), n);
        auto info = n.op_type == "Adagrad" ? step.adagrad(which)
                    : n.op_type == "Adam"  ? step.adam(which)
                                           : step.momentum(which);
        auto const& output = c.output(i);
        c.set_output(i, c.emit(computation::make_operator(std::move(info)), edges, output.dtype, *output.shape));
    }
    return std::nullopt;
}

}  // namespace

void define_training(Definitions& all) {
    using K = AttributeKind;
    constexpr auto kReal = types(DataType::F32, DataType::F64);
    OperatorDef def{.name = "Adagrad",
                    .inputs = {5, kVariadic},
                    .outputs = {1, kVariadic},
                    .types = {{kReal}, {kI64}, {kReal}},
                    .attributes = {{"decay_factor", K::Float}, {"epsilon", K::Float}, {"norm_coefficient", K::Float}},
                    .infer = infer_optimizer,
                    .lower = lower_optimizer,
                    .domain = "ai.onnx.preview.training"};
    all.push_back(def);
    def.name = "Adam";
    def.attributes = {{"alpha", K::Float},
                      {"beta", K::Float},
                      {"epsilon", K::Float},
                      {"norm_coefficient", K::Float},
                      {"norm_coefficient_post", K::Float}};
    all.push_back(def);
    def.name = "Momentum";
    def.attributes = {{"alpha", K::Float, true},
                      {"beta", K::Float, true},
                      {"mode", K::String, true},
                      {"norm_coefficient", K::Float, true}};
    all.push_back(std::move(def));
}

}  // namespace refactor::onnx
