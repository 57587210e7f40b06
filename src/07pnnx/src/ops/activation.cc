#include "formula.h"
#include "operator_def.h"
#include "torch_math.h"

#include <cmath>

// Activations: elementwise functions with constant parameters.

namespace refactor::pnnx {

namespace {

using Value = Expression::Value;

template <ExprOp kOp>
void build_plain(Call& c) {
    c.set(c.unary(kOp, c.tensor("input")));
}

void build_gelu(Call& c) {
    auto mode = c.text("approximate", "none");
    if (mode != "none" && mode != "tanh") refuse_invalid("approximate is \"", mode, "\", expected none or tanh");
    c.set(c.unary(mode == "tanh" ? ExprOp::GeluTanh : ExprOp::GeluErf, c.tensor("input")));
}

void build_leaky_relu(Call& c) {
    c.set(c.unary(ExprOp::LeakyRelu, c.tensor("input"), c.number("negative_slope", 0.01)));
}

/// At inference the slope is the mean of its bounds.
void build_rrelu(Call& c) {
    if (c.flag("training", false)) refuse_unsupported("training");
    c.set(c.unary(ExprOp::LeakyRelu, c.tensor("input"), (c.number("lower", 1. / 8) + c.number("upper", 1. / 3)) / 2));
}

template <ExprOp kOp>
void build_alpha(Call& c) {
    if (c.number("scale", 1) != 1 || c.number("input_scale", 1) != 1) refuse_unsupported("scale or input_scale");
    c.set(c.unary(kOp, c.tensor("input"), c.number("alpha", 1)));
}

void build_selu(Call& c) {
    c.set(c.unary(ExprOp::Selu, c.tensor("input"), 1.67326319217681884765625, 1.05070102214813232421875));
}

void build_hard_sigmoid(Call& c) { c.set(c.unary(ExprOp::HardSigmoid, c.tensor("input"), 1. / 6, 0.5)); }

Edge clip(Call& c, Edge x, std::optional<double> low, std::optional<double> high) {
    if (!low && !high) return x;
    auto dtype = Call::type_of(x);
    return c.map({x}, [&](Expression& e, auto const& v) {
        if (low && high) return e.clip(v[0], e.constant(dtype, *low), e.constant(dtype, *high));
        return e.binary(low ? ExprOp::Max : ExprOp::Min, v[0], e.constant(dtype, low ? *low : *high));
    });
}

void build_hard_tanh(Call& c) { c.set(clip(c, c.tensor("input"), c.number("min_val", -1), c.number("max_val", 1))); }
void build_relu6(Call& c) { c.set(clip(c, c.tensor("input"), 0, 6)); }

/// torch.clamp: bounds are numbers, sizes or tensors. Constants in a float tensor become one instruction.
void build_clamp(Call& c) {
    auto* x = c.tensor("input");
    auto low = c.item("min"), high = c.item("max");
    auto constant = [](Item const& bound) {
        auto* scalar = std::get_if<Scalar>(&bound.value);
        return scalar ? scalar->constant() : std::nullopt;
    };
    auto a = constant(low), b = constant(high);
    if (is_float(Call::type_of(x)) && (a || low.is_none()) && (b || high.is_none())) return c.set(clip(c, x, a, b));
    Formula f(c);
    auto result = f.of(x);
    if (!low.is_none()) result = f.apply("max", {result, f.of(low)});
    if (!high.is_none()) result = f.apply("min", {result, f.of(high)});
    c.set(f.finish(result));
}

/// Linear above the threshold: log(1 + exp(beta x)) / beta.
void build_softplus(Call& c) {
    auto* x = c.tensor("input");
    auto beta = c.number("beta", 1), threshold = c.number("threshold", 20);
    auto dtype = Call::type_of(x);
    c.set(c.map({x}, [&](Expression& e, auto const& v) {
        auto scaled = beta == 1 ? v[0] : e.binary(ExprOp::Mul, v[0], e.constant(dtype, beta));
        auto soft = e.unary(ExprOp::Softplus, scaled);
        if (beta != 1) soft = e.binary(ExprOp::Div, soft, e.constant(dtype, beta));
        return e.select(e.binary(ExprOp::Greater, scaled, e.constant(dtype, threshold)), v[0], soft);
    }));
}

/// -softplus(-x)
void build_log_sigmoid(Call& c) {
    c.set(c.map({c.tensor("input")}, [](Expression& e, auto const& v) {
        return e.unary(ExprOp::Neg, e.unary(ExprOp::Softplus, e.unary(ExprOp::Neg, v[0])));
    }));
}

void build_tanh_shrink(Call& c) {
    c.set(c.map({c.tensor("input")},
                [](Expression& e, auto const& v) { return e.binary(ExprOp::Sub, v[0], e.unary(ExprOp::Tanh, v[0])); }));
}

void build_soft_shrink(Call& c) {
    auto lambda = c.number("lambd", 0.5);
    c.set(c.unary(ExprOp::Shrink, c.tensor("input"), lambda, lambda));
}
void build_hard_shrink(Call& c) { c.set(c.unary(ExprOp::Shrink, c.tensor("input"), c.number("lambd", 0.5), 0)); }

void build_threshold(Call& c) {
    auto* x = c.tensor("input");
    auto dtype = Call::type_of(x);
    auto threshold = c.number("threshold"), value = c.number("value");
    c.set(c.map({x}, [&](Expression& e, auto const& v) {
        auto above = e.binary(ExprOp::Greater, v[0], e.constant(dtype, threshold));
        return e.select(above, v[0], e.constant(dtype, value));
    }));
}

/// One slope for each channel, or one for all.
void build_prelu(Call& c) {
    auto *x = c.tensor("input"), *weight = c.tensor("weight");
    auto count = element_count(Call::shape(weight));
    Shape per_channel{count};
    if (Call::rank(x) > 2 && count != DimExpr(1)) per_channel.resize(Call::rank(x) - 1, DimExpr(1));
    // A number that only the run tells may be 1, which broadcasts.
    if (Call::rank(x) > 1 && count.is_constant() && count != DimExpr(1))
        c.expect_equal(count, Call::shape(x)[1], "the number of slopes");
    c.set(c.binary(ExprOp::PRelu, x, c.reshape(weight, per_channel)));
}

/// a * sigmoid(b) of the two halves.
void build_glu(Call& c) {
    auto* x = c.tensor("input");
    auto axis = c.axis(c.integer("dim", -1), Call::rank(x));
    auto size = Call::shape(x)[axis], half = floor_div(size, 2);
    if (auto number = size.constant(); number && *number % 2)
        refuse_invalid("axis ", axis, " has the odd size ", *number, " and cannot be halved");
    auto *a = c.slice(x, axis, 0, half), *b = c.slice(x, axis, half, half * 2);
    c.set(c.map({a, b}, [](Expression& e, auto const& v) {
        return e.binary(ExprOp::Mul, v[0], e.unary(ExprOp::Sigmoid, v[1]));
    }));
}

size_t softmax_axis(Call& c, Edge x) {
    // Deprecated: without dim, 0 for 0, 1 and 3 axes, else 1.
    auto rank = Call::rank(x);
    bool first = rank == 0 || rank == 1 || rank == 3;
    return c.axis(c.integer("dim", first ? 0 : 1), rank);
}

Edge softmax_input(Call& c) {
    auto* x = c.tensor("input");
    return c.cast(x, c.dtype("dtype", Call::type_of(x)));
}

template <bool kLog>
void build_softmax(Call& c) {
    auto* x = softmax_input(c);
    c.set(Call::rank(x) ? c.softmax(x, softmax_axis(c, x), kLog)
                        : c.reshape(c.softmax(c.reshape(x, {1}), 0, kLog), {}));
}

void build_softmin(Call& c) {
    auto* x = c.unary(ExprOp::Neg, softmax_input(c));
    c.set(c.softmax(x, softmax_axis(c, x)));
}

void build_softmax_2d(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 3, 4, "the input");
    c.set(c.softmax(x, Call::rank(x) - 3));
}

}  // namespace

void define_activation(Definitions& all) {
    constexpr std::string_view kInput = "input | inplace";
    all.push_back({"nn.ReLU F.relu torch.relu aten::relu", kInput, build_plain<ExprOp::Relu>});
    all.push_back({"nn.SiLU F.silu aten::silu", kInput, build_plain<ExprOp::Silu>});
    all.push_back({"nn.Mish F.mish aten::mish", kInput, build_plain<ExprOp::Mish>});
    all.push_back({"nn.Tanh F.tanh torch.tanh aten::tanh", kInput, build_plain<ExprOp::Tanh>});
    all.push_back({"nn.Sigmoid F.sigmoid torch.sigmoid aten::sigmoid", kInput, build_plain<ExprOp::Sigmoid>});
    all.push_back({"nn.Softsign F.softsign", kInput, build_plain<ExprOp::Softsign>});
    all.push_back({"nn.Hardswish F.hardswish aten::hardswish", kInput, build_plain<ExprOp::HardSwish>});
    all.push_back({"nn.Hardsigmoid F.hardsigmoid aten::hardsigmoid", kInput, build_hard_sigmoid});
    all.push_back({"nn.SELU F.selu aten::selu", kInput, build_selu});
    all.push_back({"nn.ReLU6 F.relu6 aten::relu6", kInput, build_relu6});
    all.push_back({"nn.LogSigmoid F.logsigmoid aten::log_sigmoid", kInput, build_log_sigmoid});
    all.push_back({"nn.Tanhshrink F.tanhshrink", kInput, build_tanh_shrink});
    all.push_back({"nn.GELU F.gelu aten::gelu", "input | approximate", build_gelu});
    all.push_back({"nn.LeakyReLU F.leaky_relu aten::leaky_relu", "input negative_slope | inplace", build_leaky_relu});
    all.push_back({"nn.RReLU F.rrelu aten::rrelu", "input lower upper training | inplace", build_rrelu});
    all.push_back({"nn.ELU F.elu aten::elu", "input alpha scale input_scale | inplace", build_alpha<ExprOp::Elu>});
    all.push_back({"nn.CELU F.celu aten::celu", "input alpha | inplace", build_alpha<ExprOp::Celu>});
    all.push_back({"nn.Hardtanh F.hardtanh aten::hardtanh", "input min_val max_val | inplace", build_hard_tanh});
    all.push_back({"torch.clamp torch.clip aten::clamp aten::clip", "input min max", build_clamp});
    all.push_back({"torch.clamp_min aten::clamp_min", "input min", build_clamp});
    all.push_back({"torch.clamp_max aten::clamp_max", "input max", build_clamp});
    all.push_back({"nn.Softplus F.softplus aten::softplus", "input beta threshold", build_softplus});
    all.push_back({"nn.Softshrink F.softshrink aten::softshrink", "input lambd", build_soft_shrink});
    all.push_back({"nn.Hardshrink F.hardshrink aten::hardshrink", "input lambd", build_hard_shrink});
    all.push_back({"nn.Threshold F.threshold aten::threshold", "input threshold value | inplace", build_threshold});
    all.push_back({"nn.PReLU F.prelu aten::prelu", "input weight | num_parameters", build_prelu});
    all.push_back({"nn.GLU F.glu aten::glu", "input dim", build_glu});
    all.push_back({"nn.Softmax F.softmax torch.softmax aten::softmax", "input dim dtype", build_softmax<false>});
    all.push_back({"nn.LogSoftmax F.log_softmax aten::log_softmax", "input dim dtype", build_softmax<true>});
    all.push_back({"nn.Softmin F.softmin", "input dim dtype", build_softmin});
    all.push_back({"nn.Softmax2d", "input", build_softmax_2d});
}

}  // namespace refactor::pnnx
