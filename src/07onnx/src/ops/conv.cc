#include "kernel/ops/conv.h"

#include "computation/operator.h"
#include "contrib_parts.h"
#include "frontend/expression.h"
#include "ops/window.h"

#include <algorithm>

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using Edge = LowerContext::Edge;

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

Inferred<Checked> check(Shape const& x, Shape const& w, NodeView const& n) {
    RG_TRY(kernel, kernel_sizes(n, w));
    RG_TRY(axes, window_axes(n, kernel, x));
    auto group = n.integer("group", 1);
    if (group < 1) return Err{invalid("group is ", group, ", expected at least 1")};
    return Checked{group, std::move(axes)};
}

/// com.microsoft NhwcConv: channels are the last axis of X, W and Y.
bool is_channels_last(NodeView const& n) { return n.op_type == "NhwcConv"; }
Shape first(Shape const& shape, NodeView const& n) { return is_channels_last(n) ? channels_first(shape) : shape; }

Status check_group(DimExpr const& channels, int64_t group, std::string_view what) {
    auto number = channels.constant();
    if (!number || *number % group == 0) return std::nullopt;
    return invalid(what, " ", *number, " is not divisible by group ", group);
}

Inferred<Shape> conv_shape(InferContext& c, NodeView const& n) {
    if (auto failure = expect_rank(c.input(0), 3, 64)) return Err{*failure};
    if (auto failure = expect_rank(c.input(1), c.shape(0).size(), c.shape(0).size())) return Err{*failure};
    auto x = first(c.shape(0), n), w = first(c.shape(1), n);
    RG_TRY(checked, check(x, w, n));
    if (auto failure = check_group(w[0], checked.group, "the number of filters")) return Err{*failure};
    if (auto failure = c.expect_equal(x[1], w[1] * checked.group, "the number of channels")) return Err{*failure};
    if (c.has(2)) {
        if (auto failure = expect_rank(c.input(2), 1, 1)) return Err{*failure};
        if (auto failure = c.expect_equal(c.shape(2)[0], w[0], "the size of the bias")) return Err{*failure};
    }
    Shape y{x[0], w[0]};
    for (size_t i = 0; i < checked.axes.size(); ++i) {
        RG_TRY(size, frontend::window_rule(x[i + 2], checked.axes[i], false, c.symbols()));
        y.push_back(size);
    }
    return is_channels_last(n) ? channels_last(std::move(y)) : y;
}

Status infer_conv(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(y, conv_shape(c, n));
    return c.set(0, c.dtype(0), std::move(y));
}

/// Y [N, M, spatial…] of X and W, which have their channels first.
template <class Info>
Inferred<Edge> emit_conv(LowerContext& c, std::vector<frontend::WindowAxis> const& axes, int64_t group, Edge x, Edge w,
                         Shape y) {
    if (axes.size() > 3) return Err{unsupported("convolution over ", axes.size(), " spatial axes")};
    auto [window, params] = lower_window(axes);
    Info info;
    info.window = std::move(window), info.group = group;
    std::vector<Edge> edges{x, w};
    if (c.has(2)) info.epilogue.bias = true, edges.push_back(c.edge(2));
    return c.emit(computation::make_operator(std::move(info), std::move(params)), edges, c.dtype(0), std::move(y));
}

Inferred<Edge> convolved(LowerContext& c, NodeView const& n) {
    RG_TRY(checked, check(first(c.shape(0), n), first(c.shape(1), n), n));
    auto *x = c.edge(0), *w = c.edge(1);
    if (is_channels_last(n)) x = channels_first(c, x), w = channels_first(c, w);
    RG_TRY(y, emit_conv<kernel::ConvInfo>(c, checked.axes, checked.group, x, w, first(*c.output().shape, n)));
    return is_channels_last(n) ? channels_last(c, y) : y;
}

Status lower_conv(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(y, convolved(c, n));
    c.set_output(0, y);
    return std::nullopt;
}

/// com.microsoft FusedConv: Conv, then a sum, then an activation. Source: onnxruntime, docs/ContribOperators.md and
/// the CPU kernel.
Status infer_fused_conv(InferContext& c, NodeView const& n) {
    auto name = n.text("activation", "");
    if (!name.empty() && name != "Clip" && !activation_of(n)) return unsupported("the activation \"", name, "\"");
    auto const* params = n.get<std::vector<float>>("activation_params");
    auto given = params ? params->size() : 0;
    if (given > 2 || (name == "Clip" && given != 2))
        return invalid("activation_params has ", given, " entries, expected ", name == "Clip" ? "2" : "at most 2");
    RG_TRY_STATUS(y, conv_shape(c, n));
    if (c.has(3)) {
        RG_CHECK_STATUS(expect_rank(c.input(3), y.size(), y.size()));
        for (size_t i = 0; i < y.size(); ++i) RG_CHECK_STATUS(c.expect_equal(c.shape(3)[i], y[i], "a size of Z"));
    }
    return c.set(0, c.dtype(0), std::move(y));
}

Status lower_fused_conv(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(y, convolved(c, n));
    frontend::Expression e;
    auto dtype = c.dtype(0);
    auto input = e.input(0, dtype), x = input;
    std::vector<Edge> edges{y};
    if (c.has(3)) x = e.binary(kernel::ExprOp::Add, x, e.input(1, dtype)), edges.push_back(c.edge(3));
    auto const* params = n.get<std::vector<float>>("activation_params");
    auto param = [&](size_t i, float fallback) { return params && i < params->size() ? (*params)[i] : fallback; };
    auto bound = [&](size_t i) { return e.constant(dtype, static_cast<double>(param(i, 0))); };
    if (auto const* a = activation_of(n))
        x = e.unary(a->op, x, param(0, a->alpha), param(1, a->beta));
    else if (n.text("activation", "") == "Clip")
        x = e.binary(kernel::ExprOp::Min, e.binary(kernel::ExprOp::Max, x, bound(0)), bound(1));
    if (x == input)
        c.set_output(0, y);
    else
        c.emit_output(computation::make_operator(e.finish(x)), edges);
    return std::nullopt;
}

/// Output size of one axis, and the pads that lead to it. Source: ONNX ConvTranspose-11.
Inferred<DimExpr> transposed_size(NodeView const& n, std::vector<int64_t> const& wanted, DimExpr const& size, size_t i,
                                  frontend::WindowAxis& axis) {
    auto extra = n.integers("output_padding");
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
    if (n.has("output_padding") && n.integers("output_padding").size() != rank)
        return Err{invalid("output_padding has ", n.integers("output_padding").size(), " entries, expected ", rank)};
    auto wanted = n.integers("output_shape");
    // Models of the first opsets list the batch and the channels too.
    if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
    if (n.has("output_shape") && wanted.size() != rank)
        return Err{invalid("output_shape has ", wanted.size(), " entries, expected ", rank)};
    Shape y{x[0], w[1] * checked.group};
    for (size_t i = 0; i < rank; ++i) {
        RG_TRY(size, transposed_size(n, wanted, x[i + 2], i, checked.axes[i]));
        if (size.constant().value_or(1) < 1 && x[i + 2] != DimExpr(0))
            return Err{invalid("spatial axis ", i, " of the output would have the size ", *size.constant())};
        y.push_back(size);
    }
    return y;
}

Status infer_conv_transpose(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_rank(c.input(0), 3, 64));
    RG_CHECK_STATUS(expect_rank(c.input(1), c.shape(0).size(), c.shape(0).size()));
    RG_TRY_STATUS(checked, check(c.shape(0), c.shape(1), n));
    auto const &x = c.shape(0), &w = c.shape(1);
    RG_CHECK_STATUS(check_group(x[1], checked.group, "the number of channels"));
    RG_CHECK_STATUS(c.expect_equal(x[1], w[0], "the number of channels"));
    RG_TRY_STATUS(y, transposed_shape(c, n, checked));
    if (c.has(2)) {
        RG_CHECK_STATUS(expect_rank(c.input(2), 1, 1));
        RG_CHECK_STATUS(c.expect_equal(c.shape(2)[0], y[1], "the size of the bias"));
    }
    return c.set(0, c.dtype(0), y);
}

Status lower_conv_transpose(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(checked, check(c.shape(0), c.shape(1), n));
    RG_TRY_STATUS(y, transposed_shape(c, n, checked));
    RG_TRY_STATUS(result,
                  emit_conv<kernel::ConvTransposeInfo>(c, checked.axes, checked.group, c.edge(0), c.edge(1), y));
    c.set_output(0, result);
    return std::nullopt;
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
    all.push_back(conv);
    all.push_back(std::move(transposed));
    conv.name = "NhwcConv", conv.domain = kContribDomain;
    all.push_back(conv);
    conv.name = "FusedConv", conv.inputs.most = 4, conv.infer = infer_fused_conv, conv.lower = lower_fused_conv;
    conv.attributes.push_back({"activation", AttributeKind::String});
    conv.attributes.push_back({"activation_params", AttributeKind::Floats});
    all.push_back(std::move(conv));
}

}  // namespace refactor::onnx
