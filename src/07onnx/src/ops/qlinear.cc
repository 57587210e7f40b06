#include "ops/qlinear.h"

#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/matmul.h"
#include "ops/matmul.h"
#include "ops/quantize.h"
#include "ops/window.h"

// Products and convolutions of quantised tensors: MatMulInteger, QLinearMatMul, ConvInteger, QLinearConv.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;

constexpr TypeSet kBytes = types(DataType::U8, DataType::I8);
constexpr TypeSet kF8 = types(DataType::F8E4M3FN, DataType::F8E4M3FNUZ, DataType::F8E5M2, DataType::F8E5M2FNUZ);
constexpr TypeSet kScales = types(DataType::F32, DataType::F16, DataType::BF16);

/// Where an operator keeps an operand of a product, its scale and its zero point; 0: it has none.
struct Slots {
    size_t x, scale, zero;
};

/// Inputs of the four operators, in their order: A (X), B (W), Y.
struct Layout {
    Slots a, b, y;
};
constexpr Layout kInteger{{0, 0, 2}, {1, 0, 3}, {0, 0, 0}}, kLinear{{0, 1, 2}, {3, 4, 5}, {0, 6, 7}};

/// A scale or zero point of a matrix: one value, one for each row (column) in a vector, or one for each row (column) of
/// each matrix. `axis` is the one that it has a value for, counted from the end.
Status check_vector(InferContext& c, size_t input, size_t axis, Shape const& matrix, std::string_view what) {
    if (!c.has(input) || is_one(c.shape(input))) return std::nullopt;
    auto const& shape = c.shape(input);
    auto rank = matrix.size();
    bool fits = shape.size() == 1 || shape.size() == rank;
    for (size_t i = 1; fits && i <= shape.size(); ++i) {
        auto wanted = shape.size() == 1 ? matrix[rank - axis] : i == 3 - axis ? DimExpr(1) : matrix[rank - i];
        auto const& size = shape[shape.size() - i];
        fits = !(shape.size() == 1 ? c.expect_broadcast({size}, {wanted}, what) : c.expect_equal(size, wanted, what));
    }
    if (fits) return std::nullopt;
    return invalid(what, " has the shape ", c.text(shape), ", expected a scalar, [", c.text(matrix[rank - axis]),
                   "] or one for each matrix of ", c.text(matrix));
}

Status check_scalar(InferContext& c, size_t input, std::string_view what) {
    if (!c.has(input) || is_one(c.shape(input))) return std::nullopt;
    return invalid(what, " has the shape ", c.text(c.shape(input)), ", expected a scalar");
}

Status check_same_type(InferContext& c, size_t input, size_t other, std::string_view what) {
    if (!c.has(input) || c.dtype(input) == c.dtype(other)) return std::nullopt;
    return invalid(what, " is ", name_of(c.dtype(input)), ", expected ", name_of(c.dtype(other)));
}

Status infer_typed_product(InferContext& c, Layout const& layout, DataType y) {
    RG_TRY_STATUS(product, infer_product(c, layout.a.x, layout.b.x));
    RG_CHECK_STATUS(check_same_type(c, layout.a.zero, layout.a.x, "the zero point of A"));
    RG_CHECK_STATUS(check_same_type(c, layout.b.zero, layout.b.x, "the zero point of B"));
    RG_CHECK_STATUS(check_vector(c, layout.a.zero, 2, product.a, "the zero point of A"));
    RG_CHECK_STATUS(check_vector(c, layout.b.zero, 1, product.b, "the zero point of B"));
    if (layout.y.scale) {
        RG_CHECK_STATUS(check_vector(c, layout.a.scale, 2, product.a, "the scale of A"));
        RG_CHECK_STATUS(check_vector(c, layout.b.scale, 1, product.b, "the scale of B"));
        RG_CHECK_STATUS(check_vector(c, layout.y.scale, 2, product.full(), "the scale of Y"));
        RG_CHECK_STATUS(check_vector(c, layout.y.zero, 2, product.full(), "the zero point of Y"));
    }
    return c.set(0, y, product.y);
}

/// One value for each row as a column, so that it meets the rows of a product by broadcasting.
LoweredEdge as_rows(LowerContext& c, LoweredEdge edge) {
    if (!edge || edge->value.shape.size() != 1) return edge;
    if (is_one(edge->value.shape)) return c.reshape(edge, {});
    return c.reshape(edge, {edge->value.shape[0], DimExpr(1)});
}

Status infer_matmul_integer(InferContext& c, NodeView const&) {
    return infer_typed_product(c, kInteger, DataType::I32);
}
Status infer_qlinear_matmul(InferContext& c, NodeView const&) { return infer_typed_product(c, kLinear, c.dtype(7)); }

Status lower_matmul_integer(LowerContext& c, NodeView const&) {
    RG_TRY_STATUS(product, product_of(c.shape(0), c.shape(1), c.symbols()));
    IntegerOperands operands{c.reshape(c.edge(0), product.a), c.reshape(c.edge(1), product.b), c.edge(2), c.edge(3)};
    c.set_output(0, c.reshape(emit_integer_product(c, operands, DataType::I32, product.full()), product.y));
    return std::nullopt;
}

/// (x - zero point) in f32, for types that integer products do not take.
LoweredEdge centred(LowerContext& c, LoweredEdge x, LoweredEdge zero) {
    Expression e;
    auto difference = e.binary(ExprOp::Sub, e.cast(e.input(0, x->value.dtype), DataType::F32),
                               e.cast(e.input(1, zero->value.dtype), DataType::F32));
    auto shape = x->value.shape;
    return c.emit(computation::make_operator(e.finish(difference)), {x, zero}, DataType::F32, std::move(shape));
}

Status lower_qlinear_matmul(LowerContext& c, NodeView const&) {
    RG_TRY_STATUS(product, product_of(c.shape(0), c.shape(3), c.symbols()));
    auto *a = c.reshape(c.edge(0), product.a), *b = c.reshape(c.edge(3), product.b);
    auto is_byte = [](DataType type) { return type == DataType::U8 || type == DataType::I8; };
    bool rows = !is_one(c.shape(1)) || !is_one(c.shape(6)) || !is_one(c.shape(7)) || c.shape(4).size() > 1;
    auto y = c.dtype(7);
    auto* scale = emit_scale(c, as_rows(c, c.edge(1)), c.edge(4), as_rows(c, c.edge(6)));
    LoweredEdge result = nullptr;
    if (is_byte(c.dtype(0)) && is_byte(c.dtype(3)) && is_byte(y) && !rows) {
        result = emit_integer_product(c, {a, b, c.edge(2), c.edge(5), nullptr, scale, c.edge(7)}, y, product.full());
    } else {
        LoweredEdge sums = nullptr;
        if (is_byte(c.dtype(0)) && is_byte(c.dtype(3)))
            sums = emit_integer_product(c, {a, b, c.edge(2), c.edge(5)}, DataType::I32, product.full());
        else
            sums =
                c.emit(computation::make_operator(kernel::MatMulInfo{}),
                       {centred(c, a, as_rows(c, c.edge(2))), centred(c, b, c.edge(5))}, DataType::F32, product.full());
        result = emit_requantize(c, sums, scale, as_rows(c, c.edge(7)), y);
    }
    c.set_output(0, c.reshape(result, product.y));
    return std::nullopt;
}

struct Convolution {
    std::vector<frontend::WindowAxis> axes;
    int64_t group = 1;
};

template <class Context>
Inferred<Convolution> convolution_of(Context& c, NodeView const& n, Layout const& layout) {
    std::vector<int64_t> kernel;
    auto const& weights = c.shape(layout.b.x);
    for (size_t i = 2; i < weights.size(); ++i) {
        auto size = weights[i].constant();
        if (!size) return Err{unsupported("weights of unknown size")};
        kernel.push_back(*size);
    }
    if (n.has("kernel_shape") && n.integers("kernel_shape") != kernel)
        return Err{invalid("kernel_shape contradicts the sizes of the weights")};
    RG_TRY(axes, window_axes(n, kernel, c.shape(layout.a.x)));
    auto group = n.integer("group", 1);
    if (group < 1) return Err{invalid("group is ", group, ", expected at least 1")};
    if (auto filters = weights[0].constant(); filters && *filters % group)
        return Err{invalid("the number of filters ", *filters, " is not divisible by group ", group)};
    return Convolution{std::move(axes), group};
}

Status infer_convolution(InferContext& c, NodeView const& n, Layout const& layout, DataType y) {
    auto const &x = c.shape(layout.a.x), &w = c.shape(layout.b.x);
    RG_CHECK_STATUS(frontend::expect_rank(c.input(layout.a.x), 3, 64));
    RG_CHECK_STATUS(frontend::expect_rank(c.input(layout.b.x), x.size(), x.size()));
    RG_TRY_STATUS(convolution, convolution_of(c, n, layout));
    RG_CHECK_STATUS(c.expect_equal(x[1], w[1] * convolution.group, "the number of channels"));
    RG_CHECK_STATUS(check_same_type(c, layout.a.zero, layout.a.x, "the zero point of X"));
    RG_CHECK_STATUS(check_same_type(c, layout.b.zero, layout.b.x, "the zero point of W"));
    RG_CHECK_STATUS(check_scalar(c, layout.a.zero, "the zero point of X"));
    for (auto input : {layout.b.scale, layout.b.zero}) {
        if (!input || !c.has(input) || is_one(c.shape(input))) continue;
        RG_CHECK_STATUS(frontend::expect_rank(c.input(input), 1, 1));
        RG_CHECK_STATUS(c.expect_equal(c.shape(input)[0], w[0], "the number of scales or zero points of W"));
    }
    if (layout.y.scale) {
        RG_CHECK_STATUS(check_scalar(c, layout.a.scale, "the scale of X"));
        RG_CHECK_STATUS(check_scalar(c, layout.y.scale, "the scale of Y"));
        RG_CHECK_STATUS(check_scalar(c, layout.y.zero, "the zero point of Y"));
        if (c.has(8)) {
            RG_CHECK_STATUS(frontend::expect_rank(c.input(8), 1, 1));
            RG_CHECK_STATUS(c.expect_equal(c.shape(8)[0], w[0], "the size of the bias"));
        }
    }
    Shape shape{x[0], w[0]};
    for (size_t i = 0; i < convolution.axes.size(); ++i) {
        RG_TRY_STATUS(size, frontend::window_rule(x[i + 2], convolution.axes[i], false, c.symbols()));
        shape.push_back(size);
    }
    return c.set(0, y, std::move(shape));
}

Status infer_conv_integer(InferContext& c, NodeView const& n) {
    return infer_convolution(c, n, kInteger, DataType::I32);
}
Status infer_qlinear_conv(InferContext& c, NodeView const& n) { return infer_convolution(c, n, kLinear, c.dtype(7)); }

Status emit_convolution(LowerContext& c, NodeView const& n, Layout const& layout, IntegerOperands const& o) {
    RG_TRY_STATUS(convolution, convolution_of(c, n, layout));
    if (convolution.axes.size() > 3) return unsupported("convolution over ", convolution.axes.size(), " spatial axes");
    auto [window, params] = lower_window(convolution.axes);
    kernel::IntegerConvInfo info{std::move(window), convolution.group, {}};
    c.emit_output(computation::make_operator(std::move(info), std::move(params)),
                  {o.a, o.b, o.a_zero, o.b_zero, o.bias, o.scale, o.y_zero, nullptr, nullptr});
    return std::nullopt;
}

Status lower_conv_integer(LowerContext& c, NodeView const& n) {
    return emit_convolution(c, n, kInteger, {c.edge(0), c.edge(1), c.edge(2), c.edge(3)});
}

Status lower_qlinear_conv(LowerContext& c, NodeView const& n) {
    auto scalar = [&](size_t i) { return c.reshape(c.edge(i), {}); };
    auto* scale = emit_scale(c, scalar(1), c.edge(4), scalar(6));
    return emit_convolution(c, n, kLinear, {c.edge(0), c.edge(3), c.edge(2), c.edge(5), c.edge(8), scale, c.edge(7)});
}

}  // namespace

LoweredEdge emit_integer_product(LowerContext& c, IntegerOperands const& o, DataType y, Shape shape) {
    return c.emit(computation::make_operator(kernel::IntegerMatMulInfo{}),
                  {o.a, o.b, o.a_zero, o.b_zero, o.bias, o.scale, o.y_zero, nullptr, nullptr}, y, std::move(shape));
}

LoweredEdge emit_scale(LowerContext& c, LoweredEdge a, LoweredEdge b, LoweredEdge y) {
    Expression e;
    auto type = a->value.dtype;
    auto value = e.binary(ExprOp::Mul, e.input(0, type), e.input(1, type));
    if (y) value = e.binary(ExprOp::Div, value, e.input(2, type));
    std::vector<Shape> shapes{a->value.shape, b->value.shape};
    std::vector<LoweredEdge> edges{a, b};
    if (y) shapes.push_back(y->value.shape), edges.push_back(y);
    auto shape = frontend::broadcast_shapes(shapes, c.symbols());
    return c.emit(computation::make_operator(e.finish(e.cast(value, DataType::F32))), edges, DataType::F32,
                  std::move(shape).value());
}

LoweredEdge emit_requantize(LowerContext& c, LoweredEdge x, LoweredEdge scale, LoweredEdge zero_point, DataType to) {
    Expression e;
    auto value = e.binary(ExprOp::Mul, e.cast(e.input(0, x->value.dtype), DataType::F32), e.input(1, DataType::F32));
    std::vector<LoweredEdge> edges{x, scale};
    if (!is_float(to)) value = e.unary(ExprOp::Round, value);
    if (zero_point) {
        edges.push_back(zero_point);
        value = e.binary(ExprOp::Add, value, e.cast(e.input(2, zero_point->value.dtype), DataType::F32));
    }
    if (!is_float(to)) {
        double high = (1 << (bits_of(to) - is_signed(to))) - 1, low = is_signed(to) ? -high - 1 : 0;
        value = e.clip(value, e.constant(DataType::F32, low), e.constant(DataType::F32, high));
    }
    auto shape = x->value.shape;
    return c.emit(computation::make_operator(e.finish(e.cast(value, to))), edges, to, std::move(shape));
}

void define_qlinear(Definitions& all) {
    constexpr TypeSet kF32 = types(DataType::F32), kI32 = types(DataType::I32);
    all.push_back({.name = "MatMulInteger",
                   .since = 10,
                   .inputs = {2, 4},
                   .types = {{kBytes}},
                   .infer = infer_matmul_integer,
                   .lower = lower_matmul_integer});
    OperatorDef matmul{
        .name = "QLinearMatMul",
        .since = 10,
        .inputs = {8, 8},
        .types = {{kBytes}, {kF32, 'S'}, {kBytes}, {kBytes}, {kF32, 'S'}, {kBytes}, {kF32, 'S'}, {kBytes}},
        .infer = infer_qlinear_matmul,
        .lower = lower_qlinear_matmul};
    all.push_back(matmul);
    matmul.since = 21;
    for (auto& type : matmul.types) type.types = type.group ? kScales : kBytes | kF8;
    all.push_back(std::move(matmul));
    OperatorDef conv{.name = "ConvInteger",
                     .since = 10,
                     .inputs = {2, 4},
                     .types = {{kBytes}},
                     .attributes = {{"group", AttributeKind::Int}, {"kernel_shape", AttributeKind::Ints}},
                     .infer = infer_conv_integer,
                     .lower = lower_conv_integer};
    add_window_attributes(conv);
    all.push_back(conv);
    conv.name = "QLinearConv", conv.inputs = {8, 9};
    conv.types = {{kBytes}, {kF32}, {kBytes}, {kBytes}, {kF32}, {kBytes}, {kF32}, {kBytes}, {kI32}};
    conv.infer = infer_qlinear_conv, conv.lower = lower_qlinear_conv;
    all.push_back(std::move(conv));
}

}  // namespace refactor::onnx
