#include "kernel/ops/conv.h"

#include "computation/operator.h"
#include "ops/window.h"

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;

/// The kernel's sizes: those of the weights [M, C/group, kernel…], which `kernel_shape` must not contradict.
Inferred<std::vector<int64_t>> kernel_sizes(NodeView const& n, Shape const& weights) {
    std::vector<int64_t> kernel;
    for (size_t i = 2; i < weights.size(); ++i) {
        auto size = weights[i].constant();
        if (!size) return Err{unsupported("weights of unknown size")};
        kernel.push_back(*size);
    }
    if (n.has("kernel_shape") && n.integers("kernel_shape") != kernel)
        return Err{invalid("kernel_shape contradicts the sizes of the weights")};
    return kernel;
}

struct Checked {
    int64_t group;
    std::vector<frontend::WindowAxis> axes;
};

template <class Context>
Inferred<Checked> check(Context& c, NodeView const& n) {
    RG_TRY(kernel, kernel_sizes(n, c.shape(1)));
    RG_TRY(axes, window_axes(n, kernel, c.shape(0)));
    auto group = n.integer("group", 1);
    if (group < 1) return Err{invalid("group is ", group, ", expected at least 1")};
    return Checked{group, std::move(axes)};
}

Status check_group(DimExpr const& channels, int64_t group, std::string_view what) {
    auto number = channels.constant();
    if (!number || *number % group == 0) return std::nullopt;
    return invalid(what, " ", *number, " is not divisible by group ", group);
}

Status infer_conv(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_rank(c.input(0), 3, 64));
    RG_CHECK_STATUS(expect_rank(c.input(1), c.shape(0).size(), c.shape(0).size()));
    RG_TRY_STATUS(checked, check(c, n));
    auto const &x = c.shape(0), &w = c.shape(1);
    RG_CHECK_STATUS(check_group(w[0], checked.group, "the number of filters"));
    RG_CHECK_STATUS(expect_equal(x[1], w[1] * checked.group, "the number of channels", c.symbols()));
    if (c.has(2)) {
        RG_CHECK_STATUS(expect_rank(c.input(2), 1, 1));
        RG_CHECK_STATUS(expect_equal(c.shape(2)[0], w[0], "the size of the bias", c.symbols()));
    }
    Shape y{x[0], w[0]};
    for (size_t i = 0; i < checked.axes.size(); ++i) {
        RG_TRY_STATUS(size, frontend::window_rule(x[i + 2], checked.axes[i], false, c.symbols()));
        y.push_back(size);
    }
    return c.set(0, c.dtype(0), std::move(y));
}

template <class Info>
Status emit_conv(LowerContext& c, std::vector<frontend::WindowAxis> const& axes, int64_t group) {
    if (axes.size() > 3) return unsupported("convolution over ", axes.size(), " spatial axes");
    auto [window, params] = lower_window(axes);
    Info info;
    info.window = std::move(window), info.group = group;
    std::vector<LowerContext::Edge> edges{c.edge(0), c.edge(1)};
    if (c.has(2)) info.epilogue.bias = true, edges.push_back(c.edge(2));
    c.emit_output(computation::make_operator(std::move(info), std::move(params)), edges);
    return std::nullopt;
}

Status lower_conv(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(checked, check(c, n));
    return emit_conv<kernel::ConvInfo>(c, checked.axes, checked.group);
}

/// Output size of one axis, and the pads that lead to it. Source: ONNX ConvTranspose-11.
Inferred<DimExpr> transposed_size(NodeView const& n, DimExpr const& size, size_t i, frontend::WindowAxis& axis) {
    auto extra = n.integers("output_padding"), wanted = n.integers("output_shape");
    auto rest = i < extra.size() ? extra[i] : 0;
    if (rest < 0 || (rest > 0 && rest >= std::max(axis.stride, axis.dilation)))
        return Err{invalid("output_padding ", rest, " on spatial axis ", i, ", expected 0 to ",
                           std::max(axis.stride, axis.dilation) - 1)};
    auto full = (size - 1) * axis.stride + rest + axis.extent();
    auto mode = n.text("auto_pad", "NOTSET");
    bool upper = mode == "SAME_UPPER", same = upper || mode == "SAME_LOWER";
    if (!same && wanted.empty()) return full - axis.pad_begin - axis.pad_end;
    auto target = wanted.empty() ? size * axis.stride : DimExpr(wanted[i]);
    auto total = max(0, full - target), half = floor_div(total, 2);
    axis.pad_begin = upper ? half : total - half;
    axis.pad_end = upper ? total - half : half;
    return target;
}

template <class Context>
Inferred<Shape> transposed_shape(Context& c, NodeView const& n, Checked& checked) {
    auto const &x = c.shape(0), &w = c.shape(1);
    auto rank = checked.axes.size();
    for (auto name : {"output_padding", "output_shape"})
        if (n.has(name) && n.integers(name).size() != rank)
            return Err{invalid(name, " has ", n.integers(name).size(), " entries, expected ", rank)};
    Shape y{x[0], w[1] * checked.group};
    for (size_t i = 0; i < rank; ++i) {
        RG_TRY(size, transposed_size(n, x[i + 2], i, checked.axes[i]));
        if (size.constant().value_or(1) < 1 && x[i + 2] != DimExpr(0))
            return Err{invalid("spatial axis ", i, " of the output would have the size ", *size.constant())};
        y.push_back(size);
    }
    return y;
}

Status infer_conv_transpose(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_rank(c.input(0), 3, 64));
    RG_CHECK_STATUS(expect_rank(c.input(1), c.shape(0).size(), c.shape(0).size()));
    RG_TRY_STATUS(checked, check(c, n));
    auto const &x = c.shape(0), &w = c.shape(1);
    RG_CHECK_STATUS(check_group(x[1], checked.group, "the number of channels"));
    RG_CHECK_STATUS(expect_equal(x[1], w[0], "the number of channels", c.symbols()));
    RG_TRY_STATUS(y, transposed_shape(c, n, checked));
    if (c.has(2)) {
        RG_CHECK_STATUS(expect_rank(c.input(2), 1, 1));
        RG_CHECK_STATUS(expect_equal(c.shape(2)[0], y[1], "the size of the bias", c.symbols()));
    }
    return c.set(0, c.dtype(0), y);
}

Status lower_conv_transpose(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(checked, check(c, n));
    RG_TRY_STATUS(y, transposed_shape(c, n, checked));
    return emit_conv<kernel::ConvTransposeInfo>(c, checked.axes, checked.group);
}

}  // namespace

void define_conv(Definitions& all) {
    OperatorDef conv{.name = "Conv",
                     .inputs = {2, 3},
                     .types = {{kFloats, 'T'}},
                     .attributes = {{"group", AttributeKind::Int}, {"kernel_shape", AttributeKind::Ints}},
                     .infer = infer_conv,
                     .lower = lower_conv};
    add_window_attributes(conv);
    auto transposed = conv;
    transposed.name = "ConvTranspose";
    transposed.attributes.push_back({"output_padding", AttributeKind::Ints});
    transposed.attributes.push_back({"output_shape", AttributeKind::Ints});
    transposed.infer = infer_conv_transpose, transposed.lower = lower_conv_transpose;
    all.push_back(std::move(conv));
    all.push_back(std::move(transposed));
}

}  // namespace refactor::onnx
