#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/vision.h"
#include "ops/window.h"

// DeformConv: the samples as columns, then a matrix product with the weights.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using Edge = LowerContext::Edge;

struct Deformed {
    int64_t group, offset_group, taps;
    std::vector<int64_t> kernel;
    std::vector<frontend::WindowAxis> axes;
};

template <class Context>
Inferred<Deformed> check(Context& c, NodeView const& n) {
    Deformed d{n.integer("group", 1), n.integer("offset_group", 1), 1, {}, {}};
    if (d.group < 1 || d.offset_group < 1)
        return Err{invalid("group and offset_group are ", d.group, " and ", d.offset_group, ", expected at least 1")};
    for (size_t i = 2; i < 4; ++i) {
        auto size = c.shape(1)[i].constant();
        if (!size) return Err{unsupported("weights of unknown size")};
        d.kernel.push_back(*size);
        if (__builtin_mul_overflow(d.taps, *size, &d.taps)) return Err{invalid("the kernel is too large")};
    }
    if (n.has("kernel_shape") && n.integers("kernel_shape") != d.kernel)
        return Err{invalid("kernel_shape contradicts the sizes of the weights")};
    RG_TRY(axes, window_axes(n, d.kernel, c.shape(0)));
    d.axes = axes;
    return d;
}

Status expect_multiple(DimExpr const& size, int64_t of, std::string_view what) {
    if (auto number = size.constant(); number && *number % of)
        return invalid(what, " is ", *number, ", expected a multiple of ", of);
    return std::nullopt;
}

Status infer_deform_conv(InferContext& c, NodeView const& n) {
    for (size_t i : {0, 1, 2, 4}) RG_CHECK_STATUS(c.has(i) ? expect_rank(c.input(i), 4, 4) : std::nullopt);
    RG_TRY_STATUS(d, check(c, n));
    auto const &x = c.shape(0), &w = c.shape(1), &offset = c.shape(2);
    RG_CHECK_STATUS(expect_multiple(w[0], d.group, "the number of filters"));
    RG_CHECK_STATUS(c.expect_equal(x[1], w[1] * d.group, "the number of channels"));
    RG_CHECK_STATUS(expect_multiple(x[1], d.offset_group, "the number of channels"));
    Shape y{x[0], w[0]};
    for (size_t i = 0; i < 2; ++i) {
        RG_TRY_STATUS(size, frontend::window_rule(x[i + 2], d.axes[i], false, c.symbols()));
        y.push_back(size);
    }
    Shape offsets{x[0], DimExpr(d.offset_group * d.taps) * 2, y[2], y[3]};
    for (size_t i = 0; i < 4; ++i)
        RG_CHECK_STATUS(c.expect_equal(offset[i], offsets[i], frontend::concat("size ", i, " of the offsets")));
    if (c.has(3)) {
        RG_CHECK_STATUS(expect_rank(c.input(3), 1, 1));
        RG_CHECK_STATUS(c.expect_equal(c.shape(3)[0], w[0], "the size of the bias"));
    }
    if (c.has(4)) {
        offsets[1] = d.offset_group * d.taps;
        for (size_t i = 0; i < 4; ++i)
            RG_CHECK_STATUS(c.expect_equal(c.shape(4)[i], offsets[i], frontend::concat("size ", i, " of the mask")));
    }
    return c.set(0, c.dtype(0), std::move(y));
}

Status lower_deform_conv(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(d, check(c, n));
    kernel::DeformColumnsInfo info;
    info.kernel.assign(d.kernel.begin(), d.kernel.end());
    info.window = lower_window(d.axes).window, info.groups = d.offset_group;
    auto const &x = c.shape(0), &w = c.shape(1), &y = *c.output().shape;
    auto type = c.dtype(0);
    auto positions = y[2] * y[3];
    std::vector<Edge> inputs{c.edge(0), c.edge(2)};
    if (c.has(4)) inputs.push_back(c.edge(4));
    auto* columns = c.emit(computation::make_operator(std::move(info)), inputs, type, {x[0], x[1] * d.taps, positions});
    auto filters = floor_div(w[0], d.group);
    auto depth = w[1] * d.taps;
    auto* weights = c.edge(1);
    Shape product{x[0], w[0], positions};
    if (d.group == 1) {
        weights = c.reshape(weights, {w[0], depth});
    } else {
        weights = c.reshape(weights, {DimExpr(d.group), filters, depth});
        columns = c.reshape(columns, {x[0], DimExpr(d.group), depth, positions});
        product = {x[0], DimExpr(d.group), filters, positions};
    }
    auto* sums =
        c.reshape(c.emit(computation::make_operator(kernel::MatMulInfo{}), {weights, columns}, type, product), y);
    if (!c.has(3)) {
        c.set_output(0, sums);
        return std::nullopt;
    }
    frontend::Expression e;
    auto total = e.binary(kernel::ExprOp::Add, e.input(0, type), e.input(1, type));
    c.emit_output(computation::make_operator(e.finish(total)),
                  {sums, c.reshape(c.edge(3), {w[0], DimExpr(1), DimExpr(1)})});
    return std::nullopt;
}

}  // namespace

void define_deform_conv(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "DeformConv",
                   .since = 19,
                   .inputs = {3, 5},
                   .types = {{kFloats, 'T'}},
                   .attributes = {{"dilations", K::Ints},
                                  {"group", K::Int},
                                  {"kernel_shape", K::Ints},
                                  {"offset_group", K::Int},
                                  {"pads", K::Ints},
                                  {"strides", K::Ints}},
                   .infer = infer_deform_conv,
                   .lower = lower_deform_conv});
}

}  // namespace refactor::onnx
