#include "kernel/ops/conv.h"

#include "kernel/ops/movement.h"
#include "operator_def.h"

// nn.Conv, F.conv, and their transposed forms, over 1 to 3 axes; without a batch axis one is added for the time.

namespace refactor::pnnx {

namespace {

using frontend::WindowAxis;

// Beyond this nothing real is meant, and sums of a few such numbers cannot overflow.
constexpr int64_t kMost = int64_t{1} << 40;

/// "nn.ConvTranspose2d" → 2
size_t spatial_axes(std::string_view type) { return static_cast<size_t>(type[type.size() - 2] - '0'); }

int64_t in_range(int64_t value, int64_t least, std::string_view what) {
    if (value < least || value > kMost)
        refuse_invalid(what, " has the entry ", value, ", expected ", least, " to 2^40");
    return value;
}

struct Geometry {
    Edge x, weight, bias;
    int64_t groups;
    std::vector<WindowAxis> axes;
    bool batched;
};

void read_padding(Call& c, Geometry& g) {
    auto count = g.axes.size();
    auto* padding = c.argument("padding");
    if (padding && padding->is(Term::Kind::Text)) {
        if (padding->text == "valid") return;
        if (padding->text != "same") refuse_invalid("padding is \"", padding->text, "\", expected same or valid");
        for (auto& axis : g.axes) {
            // The odd rest goes to the end.
            auto total = axis.extent() - 1;
            axis.pad_begin = total / 2, axis.pad_end = total - total / 2;
        }
        return;
    }
    auto pads = c.integers("padding", count, 0);
    for (size_t i = 0; i < count; ++i) g.axes[i].pad_begin = g.axes[i].pad_end = in_range(pads[i], 0, "padding");
}

Geometry geometry(Call& c) {
    auto count = spatial_axes(c.type);
    Geometry g{c.tensor("input"), c.tensor("weight"), nullptr, c.integer("groups", 1), {}, true};
    // As a module `bias` says whether there is a weight of that name, as a function it is the tensor.
    if (c.is_tensor("bias")) g.bias = c.tensor("bias");
    c.expect_rank(g.x, count + 1, count + 2, "the input");
    c.expect_rank(g.weight, count + 2, count + 2, "the weight");
    g.batched = Call::rank(g.x) == count + 2;
    if (!g.batched) g.x = c.unsqueeze(g.x, 0);
    if (g.groups < 1) refuse_invalid("groups is ", g.groups, ", expected at least 1");
    auto strides = c.integers("stride", count, 1), dilations = c.integers("dilation", count, 1);
    for (size_t i = 0; i < count; ++i) {
        auto kernel = Call::shape(g.weight)[i + 2].constant();
        if (!kernel) refuse_unsupported("weights of unknown size");
        WindowAxis axis{in_range(*kernel, 1, "the kernel"), in_range(strides[i], 1, "stride"),
                        in_range(dilations[i], 1, "dilation"), 0, 0};
        if (axis.kernel > 1 && axis.dilation > kMost / axis.kernel) refuse_invalid("the window is too large");
        g.axes.push_back(axis);
    }
    read_padding(c, g);
    if (Call::type_of(g.x) != Call::type_of(g.weight))
        refuse_invalid("the input is ", name_of(Call::type_of(g.x)), ", the weight ", name_of(Call::type_of(g.weight)));
    return g;
}

kernel::Window window_of(std::vector<WindowAxis> const& axes) {
    kernel::Window window;
    for (auto const& axis : axes) {
        window.strides.push_back(axis.stride), window.dilations.push_back(axis.dilation);
        window.pads_begin.push_back(*axis.pad_begin.constant()), window.pads_end.push_back(*axis.pad_end.constant());
    }
    return window;
}

/// padding_mode other than zeros: the input is padded first.
void pad_input(Call& c, Geometry& g) {
    auto mode = c.text("padding_mode", "zeros");
    if (mode == "zeros") return;
    kernel::PadInfo info;
    if (mode == "reflect")
        info.mode = kernel::PadMode::Reflect;
    else if (mode == "replicate")
        info.mode = kernel::PadMode::Edge;
    else if (mode == "circular")
        info.mode = kernel::PadMode::Wrap;
    else
        refuse_invalid("padding_mode is \"", mode, "\", expected zeros, reflect, replicate or circular");
    auto target = Call::shape(g.x);
    std::vector<DimExpr> begins(target.size());
    for (size_t i = 0; i < g.axes.size(); ++i) {
        auto& axis = g.axes[i];
        begins[i + 2] = axis.pad_begin;
        target[i + 2] = target[i + 2] + axis.pad_begin + axis.pad_end;
        axis.pad_begin = axis.pad_end = 0;
    }
    g.x = c.emit(info, {g.x}, Call::type_of(g.x), std::move(target), std::move(begins));
}

template <class Info>
void finish(Call& c, Geometry const& g, Shape y) {
    Info info;
    info.window = window_of(g.axes), info.group = g.groups;
    std::vector<Edge> inputs{g.x, g.weight};
    if (g.bias) {
        c.expect_rank(g.bias, 1, 1, "the bias");
        c.expect_equal(Call::shape(g.bias)[0], y[1], "the size of the bias");
        info.epilogue.bias = true, inputs.push_back(g.bias);
    }
    auto* result = c.emit(std::move(info), inputs, Call::type_of(g.x), std::move(y));
    c.set(g.batched ? result : c.squeeze(result, 0));
}

void build_conv(Call& c) {
    auto g = geometry(c);
    pad_input(c, g);
    auto const &x = Call::shape(g.x), &w = Call::shape(g.weight);
    c.expect_equal(x[1], w[1] * g.groups, "the number of channels");
    if (auto filters = w[0].constant(); filters && *filters % g.groups)
        refuse_invalid(*filters, " filters are not divisible by ", g.groups, " groups");
    Shape y{x[0], w[0]};
    for (size_t i = 0; i < g.axes.size(); ++i)
        y.push_back(take(frontend::window_rule(x[i + 2], g.axes[i], false, c.symbols())));
    finish<kernel::ConvInfo>(c, g, std::move(y));
}

void build_conv_transpose(Call& c) {
    auto g = geometry(c);
    if (c.text("padding_mode", "zeros") != "zeros") refuse_invalid("padding_mode of a transposed convolution");
    if (c.has("output_size")) refuse_unsupported("output_size");
    auto extra = c.integers("output_padding", g.axes.size(), 0);
    auto const &x = Call::shape(g.x), &w = Call::shape(g.weight);
    c.expect_equal(x[1], w[0], "the number of channels");
    if (auto channels = w[0].constant(); channels && *channels % g.groups)
        refuse_invalid(*channels, " channels are not divisible by ", g.groups, " groups");
    Shape y{x[0], w[1] * g.groups};
    for (size_t i = 0; i < g.axes.size(); ++i) {
        auto const& axis = g.axes[i];
        auto size = (x[i + 2] - 1) * axis.stride + in_range(extra[i], 0, "output_padding") + axis.extent() -
                    axis.pad_begin - axis.pad_end;
        if (size.constant().value_or(1) < 1)
            refuse_invalid("spatial axis ", i, " of the output would have the size ", *size.constant());
        y.push_back(size);
    }
    finish<kernel::ConvTransposeInfo>(c, g, std::move(y));
}

}  // namespace

void define_conv(Definitions& all) {
    all.push_back(
        {"nn.Conv1d nn.Conv2d nn.Conv3d F.conv1d F.conv2d F.conv3d aten::conv1d aten::conv2d aten::conv3d",
         "input weight bias stride padding dilation groups | in_channels out_channels kernel_size padding_mode",
         build_conv});
    all.push_back(
        {"nn.ConvTranspose1d nn.ConvTranspose2d nn.ConvTranspose3d F.conv_transpose1d F.conv_transpose2d "
         "F.conv_transpose3d",
         "input weight bias stride padding output_padding groups dilation output_size | in_channels "
         "out_channels kernel_size padding_mode",
         build_conv_transpose});
}

}  // namespace refactor::pnnx
