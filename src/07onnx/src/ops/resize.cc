#include "computation/operator.h"
#include "kernel/ops/movement.h"
#include "operator_def.h"

#include <cmath>

// Resize (opsets 10, 11, 13, 18, 19) and Upsample. The factor of an axis is given by `scales`, or follows from `sizes`.

namespace refactor::onnx {

namespace {

using kernel::ResizeCoordinates;
using kernel::ResizeInfo;
using kernel::ResizeMode;
using kernel::ResizeRounding;

template <class T>
struct Choice {
    std::string_view name;
    T value;
};

template <class T, size_t N>
Inferred<T> choose(Choice<T> const (&choices)[N], std::string_view what, std::string_view name) {
    std::string known;
    for (auto const& choice : choices) {
        if (choice.name == name) return choice.value;
        known += frontend::concat(known.empty() ? "" : ", ", choice.name);
    }
    return Err{invalid(what, " is \"", name, "\", expected one of: ", known)};
}

constexpr Choice<ResizeMode> kModes[]{{"nearest", ResizeMode::Nearest},
                                      {"linear", ResizeMode::Linear},
                                      {"bilinear", ResizeMode::Linear},
                                      {"cubic", ResizeMode::Cubic}};
constexpr Choice<ResizeCoordinates> kCoordinates[]{{"half_pixel", ResizeCoordinates::HalfPixel},
                                                   {"half_pixel_symmetric", ResizeCoordinates::HalfPixelSymmetric},
                                                   {"pytorch_half_pixel", ResizeCoordinates::PytorchHalfPixel},
                                                   {"align_corners", ResizeCoordinates::AlignCorners},
                                                   {"asymmetric", ResizeCoordinates::Asymmetric},
                                                   {"tf_crop_and_resize", ResizeCoordinates::TfCropAndResize},
                                                   {"tf_half_pixel_for_nn", ResizeCoordinates::TfHalfPixelForNn}};
constexpr Choice<ResizeRounding> kRoundings[]{{"round_prefer_floor", ResizeRounding::RoundPreferFloor},
                                              {"round_prefer_ceil", ResizeRounding::RoundPreferCeil},
                                              {"floor", ResizeRounding::Floor},
                                              {"ceil", ResizeRounding::Ceil}};

bool is_old(NodeView const& n) { return n.opset < 11 || n.op_type == "Upsample"; }

/// The parts of the node that do not depend on sizes.
Inferred<ResizeInfo> options_of(NodeView const& n) {
    ResizeInfo info;
    RG_TRY(mode, choose(kModes, "mode", n.text("mode", "nearest")));
    info.mode = mode;
    if (is_old(n)) {
        info.coordinates = ResizeCoordinates::Asymmetric, info.rounding = ResizeRounding::Floor;
        return info;
    }
    RG_TRY(coordinates, choose(kCoordinates, "coordinate_transformation_mode",
                               n.text("coordinate_transformation_mode", "half_pixel")));
    RG_TRY(rounding, choose(kRoundings, "nearest_mode", n.text("nearest_mode", "round_prefer_floor")));
    if (coordinates == ResizeCoordinates::TfHalfPixelForNn && n.opset >= 18)
        return Err{invalid("coordinate_transformation_mode tf_half_pixel_for_nn does not exist from opset 18 on")};
    info.coordinates = coordinates, info.rounding = rounding;
    info.cubic_a = n.number("cubic_coeff_a", -0.75f);
    info.extrapolation = n.number("extrapolation_value", 0);
    info.exclude_outside = n.integer("exclude_outside", 0) != 0;
    info.antialias = n.integer("antialias", 0) != 0;
    return info;
}

/// The axes that scales and sizes speak of, in their order.
Inferred<std::vector<size_t>> resized_axes(NodeView const& n, size_t rank) {
    std::vector<size_t> axes;
    if (!n.has("axes")) {
        for (size_t i = 0; i < rank; ++i) axes.push_back(i);
        return axes;
    }
    RG_TRY(unique, frontend::normalize_axes(n.integers("axes"), rank));
    for (auto axis : n.integers("axes"))
        axes.push_back(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis));
    return axes;
}

struct Resized {
    Shape shape;
    std::vector<float> scales, roi;  ///< one (two) per axis; empty: output size / input size
};

/// floor(size · scale), for symbolic sizes with the scale as a fraction: of small numbers if it is one, else exactly.
Inferred<DimExpr> scaled_size(DimExpr const& size, float scale) {
    if (auto number = size.constant()) {
        // The product is rounded to f32, as onnxruntime does: 10 times 0.7 is 7, not 6.9999999.
        auto result = std::floor(static_cast<float>(*number) * scale);
        if (!(result < 0x1p40f)) return Err{invalid("size ", *number, " times ", scale, " is too large")};
        return DimExpr(static_cast<int64_t>(result));
    }
    for (int64_t denominator = 1; denominator <= 64; ++denominator) {
        auto numerator = static_cast<double>(scale) * static_cast<double>(denominator);
        auto whole = std::nearbyint(numerator);
        if (static_cast<float>(whole / static_cast<double>(denominator)) == scale && std::abs(whole) < 0x1p40)
            return floor_div(size * static_cast<int64_t>(whole), denominator);
    }
    int exponent = 0;
    auto mantissa = static_cast<int64_t>(std::ldexp(std::frexp(scale, &exponent), 24));
    // Sizes of up to 2^38 times a mantissa of 24 bits fit into 64.
    if (exponent < -8 || exponent > 24) return Err{unsupported("the scale ", scale, " on an axis of unknown size")};
    return floor_div(size * mantissa, int64_t{1} << (24 - exponent));
}

Inferred<Resized> by_scales(InferContext& c, std::vector<double> const& scales, std::vector<size_t> const& axes) {
    Resized result{c.shape(0), std::vector<float>(c.shape(0).size(), 1), {}};
    if (scales.size() != axes.size())
        return Err{invalid("scales has ", scales.size(), " entries, expected ", axes.size())};
    for (size_t i = 0; i < axes.size(); ++i) {
        if (!(scales[i] > 0) || !(scales[i] < 1e9))
            return Err{invalid("the scale ", scales[i], " is not a positive number below 1e9")};
        RG_TRY(size, scaled_size(c.shape(0)[axes[i]], static_cast<float>(scales[i])));
        result.shape[axes[i]] = size;
        result.scales[axes[i]] = static_cast<float>(scales[i]);
    }
    return result;
}

Inferred<Resized> by_sizes(InferContext& c, NodeView const& n, std::vector<DimExpr> const& sizes,
                           std::vector<size_t> const& axes) {
    Resized result{c.shape(0), {}, {}};
    if (sizes.size() != axes.size())
        return Err{invalid("sizes has ", sizes.size(), " entries, expected ", axes.size())};
    auto policy = n.text("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
        return Err{
            invalid("keep_aspect_ratio_policy is \"", policy, "\", expected stretch, not_larger or not_smaller")};
    for (auto const& size : sizes)
        if (size.constant().value_or(1) < 1) return Err{invalid("sizes has the entry ", *size.constant())};
    for (size_t i = 0; i < axes.size(); ++i) result.shape[axes[i]] = sizes[i];
    if (policy == "stretch") return result;
    double scale = policy == "not_larger" ? INFINITY : 0;
    for (size_t i = 0; i < axes.size(); ++i) {
        auto from = c.shape(0)[axes[i]].constant(), to = sizes[i].constant();
        if (!from || !to) return Err{unsupported("keep_aspect_ratio_policy with sizes that are not known")};
        auto ratio = static_cast<double>(*to) / static_cast<double>(*from);
        scale = policy == "not_larger" ? std::min(scale, ratio) : std::max(scale, ratio);
    }
    result.scales.assign(c.shape(0).size(), 1);
    for (auto axis : axes) {
        auto size = scale * static_cast<double>(*c.shape(0)[axis].constant());
        result.shape[axis] = static_cast<int64_t>(std::floor(size + 0.5));
        result.scales[axis] = static_cast<float>(scale);
    }
    return result;
}

/// An optional list that is there but empty counts as omitted.
bool is_given(InferContext& c, size_t i) { return c.has(i) && c.shape(i) != Shape{DimExpr(0)}; }

Inferred<Resized> resize(InferContext& c, NodeView const& n) {
    RG_TRY(options, options_of(n));
    RG_TRY(axes, resized_axes(n, c.shape(0).size()));
    if (n.has("height_scale")) {
        if (auto failure = frontend::expect_rank(c.input(0), 4, 4)) return Err{*failure};
        return by_scales(c, {1, 1, n.number("height_scale", 1), n.number("width_scale", 1)}, axes);
    }
    if (n.has("scales")) {
        auto* scales = n.get<std::vector<float>>("scales");
        return by_scales(c, {scales->begin(), scales->end()}, axes);
    }
    size_t scales_at = is_old(n) ? 1 : 2;
    bool has_scales = is_given(c, scales_at), has_sizes = !is_old(n) && is_given(c, 3);
    if (has_scales == has_sizes) return Err{invalid(has_scales ? "both" : "neither of", " scales and sizes are given")};
    std::optional<Resized> result;
    if (has_scales) {
        RG_TRY(scales, c.floats(scales_at, "scales"));
        RG_TRY(resized, by_scales(c, scales, axes));
        result = std::move(resized);
    } else {
        bool stretch = n.text("keep_aspect_ratio_policy", "stretch") == "stretch";
        RG_TRY(sizes, stretch ? c.sizes(3, "sizes") : c.values(3, "sizes"));
        RG_TRY(resized, by_sizes(c, n, sizes, axes));
        result = std::move(resized);
    }
    if (options.coordinates != ResizeCoordinates::TfCropAndResize) return std::move(*result);
    if (!is_given(c, 1)) return Err{invalid("tf_crop_and_resize needs roi")};
    RG_TRY(roi, c.floats(1, "roi"));
    if (roi.size() != 2 * axes.size())
        return Err{invalid("roi has ", roi.size(), " entries, expected ", 2 * axes.size())};
    auto rank = c.shape(0).size();
    result->roi.assign(2 * rank, 0);
    std::fill(result->roi.begin() + static_cast<std::ptrdiff_t>(rank), result->roi.end(), 1.f);
    for (size_t i = 0; i < axes.size(); ++i) {
        result->roi[axes[i]] = static_cast<float>(roi[i]);
        result->roi[axes[i] + rank] = static_cast<float>(roi[i + axes.size()]);
    }
    return std::move(*result);
}

Status infer_resize(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(resized, resize(c, n));
    for (size_t i = 0; i < resized.shape.size(); ++i)
        if (c.shape(0)[i] == DimExpr(0) && resized.shape[i] != DimExpr(0))
            return invalid("axis ", i, " is empty and cannot grow");
    return c.set(0, c.dtype(0), resized.shape);
}

/// Before opset 11 the nearest element was the one after the place on axes that shrink and the one before it on others,
/// as onnxruntime has it: two steps where there are axes of both kinds.
void lower_old_nearest(LowerContext& c, ResizeInfo const& info, Resized const& resized) {
    auto* edge = c.edge(0);
    auto shape = c.shape(0);
    for (bool shrinks : {true, false}) {
        auto step = info;
        step.rounding = shrinks ? ResizeRounding::Ceil : ResizeRounding::Floor;
        step.scales.assign(shape.size(), 1);
        auto before = shape;
        for (size_t i = 0; i < shape.size(); ++i)
            if (resized.scales[i] != 1 && (resized.scales[i] < 1) == shrinks)
                step.scales[i] = resized.scales[i], shape[i] = resized.shape[i];
        if (shape != before) edge = c.emit(computation::make_operator(std::move(step)), {edge}, c.dtype(0), shape);
    }
    c.set_output(0, edge);
}

Status lower_resize(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    RG_TRY_STATUS(info, options_of(n));
    RG_TRY_STATUS(resized, resize(view, n));
    if (is_old(n) && info.mode == ResizeMode::Nearest) {
        lower_old_nearest(c, info, resized);
        return std::nullopt;
    }
    info.scales = std::move(resized.scales), info.roi = std::move(resized.roi);
    if (*c.output().shape == c.shape(0) && info.coordinates != ResizeCoordinates::TfCropAndResize)
        c.set_output(0, c.edge(0));
    else
        c.emit_output(computation::make_operator(std::move(info)), {c.edge(0)});
    return std::nullopt;
}

}  // namespace

void define_resize(Definitions& all) {
    using K = AttributeKind;
    OperatorDef upsample{
        .name = "Upsample",
        .types = {{kAny}},
        .attributes = {{"mode", K::String}, {"height_scale", K::Float, true}, {"width_scale", K::Float, true}},
        .infer = infer_resize,
        .lower = lower_resize};
    all.push_back(upsample);
    upsample.since = 7, upsample.attributes.pop_back(), upsample.attributes[1] = {"scales", K::Floats, true};
    all.push_back(upsample);
    upsample.since = 9, upsample.inputs = {2, 2}, upsample.attributes.pop_back();
    upsample.types.push_back({types(DataType::F32)});
    all.push_back(upsample);
    auto resize_10 = upsample;
    resize_10.name = "Resize", resize_10.since = 10;
    all.push_back(std::move(resize_10));
    upsample.since = 10, upsample.infer = nullptr;
    all.push_back(std::move(upsample));
    OperatorDef def{.name = "Resize",
                    .since = 11,
                    .inputs = {1, 4},
                    .types = {{kAny}, {kFloats}, {types(DataType::F32)}, {kI64}},
                    .attributes = {{"coordinate_transformation_mode", K::String},
                                   {"cubic_coeff_a", K::Float},
                                   {"exclude_outside", K::Int},
                                   {"extrapolation_value", K::Float},
                                   {"mode", K::String},
                                   {"nearest_mode", K::String}},
                    .infer = infer_resize,
                    .lower = lower_resize};
    all.push_back(def);
    def.since = 18;
    def.attributes.insert(def.attributes.end(),
                          {{"antialias", K::Int}, {"axes", K::Ints}, {"keep_aspect_ratio_policy", K::String}});
    all.push_back(std::move(def));
}

}  // namespace refactor::onnx
