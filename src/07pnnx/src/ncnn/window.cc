#include "ncnn/layer.h"

#include <algorithm>
#include <cmath>

// Convolutions and pooling.

namespace refactor::pnnx {

namespace {

using frontend::concat;
using Layer = NcnnLayer;

/// Parameters of a window, from the outermost axis to the innermost.
struct Axes {
    std::vector<int64_t> kernel, stride, dilation, begin, end;
};

/// `ids`: of kernel, dilation, stride, pad before, pad after, for w, h and d; those of h and d default to those of w.
Axes window_of(Layer& l, size_t count, bool dilated) {
    constexpr int64_t kKernel[]{1, 11, 21}, kDilation[]{2, 12, 22}, kBegin[]{4, 14, 24}, kEnd[]{15, 16, 17};
    constexpr int64_t kStrideConv[]{3, 13, 23}, kStridePool[]{2, 12, 22}, kBeginPool[]{3, 13, 23},
        kEndPool[]{14, 15, 16};
    auto* strides = dilated ? kStrideConv : kStridePool;
    auto *begins = dilated ? kBegin : kBeginPool, *ends = dilated ? kEnd : kEndPool;
    Axes axes;
    for (size_t i = count; i-- > 0;) {
        auto value = [&](int64_t const* ids, int64_t fallback) {
            return l.integer(ids[i], l.integer(ids[0], fallback));
        };
        axes.kernel.push_back(value(kKernel, 0));
        axes.stride.push_back(value(strides, 1));
        axes.dilation.push_back(dilated ? value(kDilation, 1) : 1);
        auto begin = value(begins, 0);
        axes.begin.push_back(begin);
        // Behind the end of w: the pad before w; of others: the one before them.
        axes.end.push_back(l.integer(ends[i], i ? begin : l.integer(begins[0], 0)));
    }
    return axes;
}

/// Pads as F.pad wants them, innermost axis first.
std::string padded(Layer& l, std::string const& input, Axes const& axes, double value) {
    std::vector<int64_t> pads;
    for (size_t i = axes.begin.size(); i-- > 0;) pads.push_back(axes.begin[i]), pads.push_back(axes.end[i]);
    if (std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; })) return input;
    return l.emit("F.pad", {{"input", input}}, {{"pad", list_of(pads)}, {"value", Term::of_float(value)}});
}

/// Pads that keep ceil(size / stride) positions; an odd rest goes to the end (`upper`) or the beginning.
std::string same_padded(Layer& l, std::string const& input, Axes const& axes, bool upper, double value) {
    return l.emit("ncnn.SamePad", {{"input", input}},
                  {{"kernel_size", list_of(axes.kernel)},
                   {"stride", list_of(axes.stride)},
                   {"dilation", list_of(axes.dilation)},
                   {"upper", flag(upper)},
                   {"value", Term::of_float(value)}});
}

int64_t product(std::vector<int64_t> const& values) {
    int64_t result = 1;
    for (auto value : values)
        if (__builtin_mul_overflow(result, value, &result)) return -1;
    return result;
}

/// "Convolution1D" → 1
size_t axes_of(Layer& l) {
    auto const& type = l.node().type;
    return type.ends_with("1D") ? 1 : type.ends_with("3D") ? 3 : 2;
}

void convolution(Layer& l) {
    auto count = axes_of(l);
    auto axes = window_of(l, count, true);
    auto filters = l.integer(0, 0), groups = l.integer(7, 1), size = l.integer(6, 0), taps = product(axes.kernel);
    if (l.integer(19, 0)) return l.refuse("dynamic weights");
    if (l.integer(8, 0)) return l.refuse("int8 weights");
    if (filters < 1 || taps < 1 || groups < 1 || filters % groups || size % filters || size / filters % taps)
        return l.refuse(concat(size, " weights for ", filters, " filters of ", taps, " taps in ", groups, " groups"),
                        false);
    std::vector<int64_t> dims{filters, size / filters / taps};
    dims.insert(dims.end(), axes.kernel.begin(), axes.kernel.end());
    std::vector<std::pair<std::string, std::string>> inputs{{"weight", l.weight("weight", dims, true)}};
    if (l.integer(5, 0)) inputs.emplace_back("bias", l.weight("bias", {filters}, false));
    Layer::Named arguments{
        {"stride", list_of(axes.stride)}, {"dilation", list_of(axes.dilation)}, {"groups", Term::of_int(groups)}};
    auto input = l.input(0);
    auto mode = l.integer(4, 0);
    if (mode == -233 || mode == -234)
        input = same_padded(l, input, axes, mode == -233, l.number(18, 0));
    else if (axes.begin == axes.end && l.number(18, 0) == 0)
        arguments.emplace_back("padding", list_of(axes.begin));
    else
        input = padded(l, input, axes, l.number(18, 0));
    inputs.emplace_back("input", input);
    l.finish(l.emit(concat("nn.Conv", count, "d"), inputs, std::move(arguments)));
}

void deconvolution(Layer& l) {
    auto count = axes_of(l);
    auto axes = window_of(l, count, true);
    auto filters = l.integer(0, 0), groups = l.integer(7, 1), size = l.integer(6, 0), taps = product(axes.kernel);
    if (filters < 1 || taps < 1 || groups < 1 || filters % groups || size % filters || size / filters % taps)
        return l.refuse(concat(size, " weights for ", filters, " filters of ", taps, " taps in ", groups, " groups"),
                        false);
    if (l.integer(28, 0)) return l.refuse("dynamic weights");
    if (axes.begin != axes.end) return l.refuse("pads that differ at both ends");
    auto per_group = size / filters / taps;
    // ncnn has [group, out, in, kernel], torch [group · in, out, kernel].
    std::vector<int64_t> stored{groups, filters / groups, per_group}, wanted{groups * per_group, filters / groups},
        perm{0, 2, 1};
    for (size_t i = 0; i < count; ++i) {
        stored.push_back(axes.kernel[i]), wanted.push_back(axes.kernel[i]);
        perm.push_back(static_cast<int64_t>(i) + 3);
    }
    auto weight = l.emit("Tensor.permute", {{"input", l.weight("weight", stored, true)}}, {{"dims", list_of(perm)}});
    weight = l.emit("Tensor.reshape", {{"input", weight}}, {{"shape", list_of(wanted)}});
    std::vector<std::pair<std::string, std::string>> inputs{{"input", l.input(0)}, {"weight", weight}};
    if (l.integer(5, 0)) inputs.emplace_back("bias", l.weight("bias", {filters}, false));
    std::vector<int64_t> extra;
    for (size_t i = count; i-- > 0;) extra.push_back(l.integer(18 + static_cast<int64_t>(i), l.integer(18, 0)));
    l.finish(l.emit(concat("nn.ConvTranspose", count, "d"), inputs,
                    {{"stride", list_of(axes.stride)},
                     {"dilation", list_of(axes.dilation)},
                     {"groups", Term::of_int(groups)},
                     {"padding", list_of(axes.begin)},
                     {"output_padding", list_of(extra)}}));
}

void pooling(Layer& l) {
    auto count = axes_of(l);
    auto axes = window_of(l, count, false);
    bool average = l.integer(0, 0) == 1;
    auto suffix = concat(average ? "Avg" : "Max", "Pool", count, "d");
    if (l.integer(4, 0)) {
        auto pooled =
            l.emit(concat("nn.Adaptive", suffix), {{"input", l.input(0)}}, {{"output_size", Term::of_int(1)}});
        l.emit("torch.flatten", {{"input", pooled}}, {}, {l.output()});
        return;
    }
    if (l.integer(7, 0)) {
        std::vector<int64_t> sizes;
        constexpr int64_t kOut[]{8, 18, 28};
        for (size_t i = count; i-- > 0;) {
            auto size = l.integer(kOut[i], l.integer(8, 0));
            sizes.push_back(size == -233 ? 0 : size);
        }
        l.emit(concat("nn.Adaptive", suffix), {{"input", l.input(0)}}, {{"output_size", list_of(sizes)}}, {l.output()});
        return;
    }
    auto mode = l.integer(5, 0);
    if (mode < 0 || mode > 3) return l.refuse(concat("the pad mode ", mode), false);
    bool include = l.integer(6, 0) != 0;
    Layer::Named arguments{
        {"kernel_size", list_of(axes.kernel)}, {"stride", list_of(axes.stride)}, {"ceil_mode", flag(mode == 0)}};
    auto input = l.input(0);
    if (mode > 1)
        input = same_padded(l, input, axes, mode == 2, average ? 0 : -INFINITY);
    else if (axes.begin == axes.end)
        arguments.emplace_back("padding", list_of(axes.begin));
    else if (average && !include)
        return l.refuse("pads that differ at both ends and do not count");
    else
        input = padded(l, input, axes, average ? 0 : -INFINITY);
    if (average) arguments.emplace_back("count_include_pad", flag(include));
    l.emit(concat("nn.", suffix), {{"input", input}}, std::move(arguments), {l.output()});
}

}  // namespace

void define_ncnn_window(LayerDefinitions& all) {
    for (auto name : {"Convolution", "Convolution1D", "Convolution3D", "ConvolutionDepthWise", "ConvolutionDepthWise1D",
                      "ConvolutionDepthWise3D"})
        all.push_back({name, convolution});
    for (auto name : {"Deconvolution", "Deconvolution1D", "Deconvolution3D", "DeconvolutionDepthWise",
                      "DeconvolutionDepthWise1D", "DeconvolutionDepthWise3D"})
        all.push_back({name, deconvolution});
    for (auto name : {"Pooling", "Pooling1D", "Pooling3D"}) all.push_back({name, pooling});
}

}  // namespace refactor::pnnx
