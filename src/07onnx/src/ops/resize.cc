#include "kernel/ops/movement.h"
#include "operator_def.h"
#include "ops/integers.h"

#include <cmath>

namespace refactor::onnx {

namespace {

using computation::make_operator;
using kernel::ResizeCoordinates;
using kernel::ResizeMode;
using kernel::ResizeRounding;

/// Where the operands are: their places changed between opsets.
struct Operands {
    size_t roi = SIZE_MAX, scales = SIZE_MAX, sizes = SIZE_MAX;

    explicit Operands(NodeView const& node) {
        if (node.op_type == "Upsample" || node.opset < 11)
            scales = 1;
        else
            roi = 1, scales = 2, sizes = 3;
    }
};

bool is_given(frontend::Tensor const& tensor) { return !(element_count(*tensor.shape) == DimExpr(0)); }

/// The axes that scales and sizes speak about.
Inferred<std::vector<size_t>> resized_axes(NodeView const& node, size_t rank) {
    std::vector<size_t> axes;
    if (node.has("axes")) {
        for (auto axis : node.integers("axes")) {
            RG_TRY(normal, frontend::normalize_axis(axis, rank));
            if (std::find(axes.begin(), axes.end(), normal) != axes.end())
                return Err{invalid("axis ", axis, " occurs twice in axes")};
            axes.push_back(normal);
        }
    } else {
        for (size_t i = 0; i < rank; ++i) axes.push_back(i);
    }
    return axes;
}

/// floor(size · scale). A symbolic size needs a scale that is a fraction with a denominator up to 64.
Inferred<DimExpr> scaled_size(DimExpr const& size, double scale) {
    if (!(scale > 0) || !std::isfinite(scale)) return Err{invalid("a scale is ", scale, ", expected more than 0")};
    if (auto known = size.constant()) {
        auto result = std::floor(static_cast<double>(*known) * static_cast<float>(scale));
        if (result > 1e15) return Err{invalid("scale ", scale, " makes a size of ", result)};
        return DimExpr(static_cast<int64_t>(result));
    }
    for (int64_t denominator = 1; denominator <= 64; ++denominator) {
        auto numerator = scale * static_cast<double>(denominator);
        if (numerator <= 1e9 && std::abs(numerator - std::round(numerator)) < 1e-6 * numerator)
            return floor_div(size * DimExpr(static_cast<int64_t>(std::round(numerator))), DimExpr(denominator));
    }
    return Err{unsupported("scale ", scale,
                           " of a size that is not known: it must be a fraction with a denominator up to 64")};
}

std::vector<double> attribute_scales(NodeView const& node) {
    auto* scales = node.get<std::vector<float>>("scales");
    return scales ? std::vector<double>(scales->begin(), scales->end()) : std::vector<double>{};
}

/// Output sizes for `sizes` under a policy that keeps the aspect ratio: one scale for all axes. Source: ONNX Resize-18.
Inferred<std::vector<DimExpr>> keep_ratio(std::string_view policy, Shape const& x, std::vector<size_t> const& axes,
                                          std::vector<DimExpr> const& sizes) {
    double scale = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
        auto size = x[axes[i]].constant(), target = sizes[i].constant();
        if (!size || !target || *size == 0)
            return Err{unsupported("keep_aspect_ratio_policy ", policy, " with sizes that are not known")};
        auto each = static_cast<double>(*target) / static_cast<double>(*size);
        scale = i == 0 ? each : policy == "not_larger" ? std::min(scale, each) : std::max(scale, each);
    }
    std::vector<DimExpr> result;
    for (auto axis : axes) {
        // Halves round up.
        auto size = std::floor(static_cast<double>(*x[axis].constant()) * scale + 0.5);
        result.emplace_back(static_cast<int64_t>(size));
    }
    return result;
}

Status check_count(size_t actual, size_t expected, std::string_view what) {
    if (actual == expected) return std::nullopt;
    return invalid(what, " has ", actual, " elements, expected ", expected);
}

Status infer_resize(InferContext& ctx, NodeView const& node) {
    Operands at(node);
    auto shape = ctx.shape(0);
    RG_TRY_STATUS(axes, resized_axes(node, shape.size()));
    bool has_sizes = ctx.has(at.sizes) && is_given(ctx.input(at.sizes));
    bool has_scales = ctx.has(at.scales) && is_given(ctx.input(at.scales));
    if (has_sizes) {
        if (has_scales) return invalid("scales and sizes are both given, expected one of them");
        RG_TRY_STATUS(sizes, ctx.values(at.sizes, "sizes"));
        RG_CHECK_STATUS(check_count(sizes.size(), axes.size(), "sizes"));
        auto policy = node.text("keep_aspect_ratio_policy", "stretch");
        if (policy == "not_larger" || policy == "not_smaller") {
            RG_TRY_STATUS(kept, keep_ratio(policy, shape, axes, sizes));
            sizes = kept;
        } else if (policy != "stretch") {
            return invalid("keep_aspect_ratio_policy is \"", policy, "\", expected stretch, not_larger or not_smaller");
        }
        for (size_t i = 0; i < axes.size(); ++i) shape[axes[i]] = sizes[i];
        return ctx.set(0, ctx.dtype(0), std::move(shape));
    }
    auto scales = attribute_scales(node);
    if (has_scales) {
        RG_TRY_STATUS(given, ctx.floats(at.scales, "scales"));
        scales = given;
    } else if (scales.empty()) {
        return invalid("neither scales nor sizes are given");
    }
    RG_CHECK_STATUS(check_count(scales.size(), axes.size(), "scales"));
    for (size_t i = 0; i < axes.size(); ++i) {
        RG_TRY_STATUS(size, scaled_size(shape[axes[i]], scales[i]));
        shape[axes[i]] = size;
    }
    return ctx.set(0, ctx.dtype(0), std::move(shape));
}

template <class T>
struct Choice {
    std::string_view text;
    T value;
};

template <class T, size_t N>
Status choose(NodeView const& node, std::string_view attribute, std::string_view fallback,
              Choice<T> const (&choices)[N], T& result) {
    auto text = node.text(attribute, fallback);
    for (auto const& choice : choices)
        if (choice.text == text) {
            result = choice.value;
            return std::nullopt;
        }
    return invalid(attribute, " is \"", text, "\", which is not defined");
}

Status fill_attributes(NodeView const& node, kernel::ResizeInfo& info) {
    bool old = node.op_type == "Upsample" || node.opset < 11;
    static constexpr Choice<ResizeMode> kModes[] = {{"nearest", ResizeMode::Nearest},
                                                    {"linear", ResizeMode::Linear},
                                                    {"cubic", ResizeMode::Cubic},
                                                    {"bilinear", ResizeMode::Linear}};
    static constexpr Choice<ResizeCoordinates> kCoordinates[] = {
        {"half_pixel", ResizeCoordinates::HalfPixel},
        {"half_pixel_symmetric", ResizeCoordinates::HalfPixelSymmetric},
        {"pytorch_half_pixel", ResizeCoordinates::PytorchHalfPixel},
        {"align_corners", ResizeCoordinates::AlignCorners},
        {"asymmetric", ResizeCoordinates::Asymmetric},
        {"tf_crop_and_resize", ResizeCoordinates::TfCropAndResize}};
    static constexpr Choice<ResizeRounding> kRoundings[] = {{"round_prefer_floor", ResizeRounding::RoundPreferFloor},
                                                            {"round_prefer_ceil", ResizeRounding::RoundPreferCeil},
                                                            {"floor", ResizeRounding::Floor},
                                                            {"ceil", ResizeRounding::Ceil}};
    RG_CHECK_STATUS(choose(node, "mode", "nearest", kModes, info.mode));
    RG_CHECK_STATUS(choose(node, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel", kCoordinates,
                           info.coordinates));
    RG_CHECK_STATUS(choose(node, "nearest_mode", old ? "floor" : "round_prefer_floor", kRoundings, info.rounding));
    info.cubic_a = node.number("cubic_coeff_a", -0.75f);
    info.extrapolation = node.number("extrapolation_value", 0);
    info.exclude_outside = node.integer("exclude_outside", 0) != 0;
    info.antialias = node.integer("antialias", 0) != 0;
    return std::nullopt;
}

Status lower_resize(LowerContext& ctx, NodeView const& node) {
    Operands at(node);
    kernel::ResizeInfo info;
    RG_CHECK_STATUS(fill_attributes(node, info));
    auto rank = ctx.shape(0).size();
    RG_TRY_STATUS(axes, resized_axes(node, rank));
    bool has_sizes = ctx.has(at.sizes) && is_given(ctx.tensor(at.sizes));
    if (!has_sizes) {
        auto scales = ctx.has(at.scales) ? known_floats(ctx.tensor(at.scales)) : attribute_scales(node);
        info.scales.assign(rank, 1);
        for (size_t i = 0; i < axes.size(); ++i) info.scales[axes[i]] = static_cast<float>(scales[i]);
    }
    if (info.coordinates == ResizeCoordinates::TfCropAndResize) {
        auto roi = ctx.has(at.roi) ? known_floats(ctx.tensor(at.roi)) : std::vector<double>{};
        if (roi.size() != 2 * axes.size())
            return invalid("roi has ", roi.size(), " known elements, expected ", 2 * axes.size(),
                           " for tf_crop_and_resize");
        info.roi.assign(2 * rank, 0);
        for (size_t i = 0; i < rank; ++i) info.roi[rank + i] = 1;
        for (size_t i = 0; i < axes.size(); ++i) {
            info.roi[axes[i]] = static_cast<float>(roi[i]);
            info.roi[rank + axes[i]] = static_cast<float>(roi[axes.size() + i]);
        }
    }
    ctx.emit_output(make_operator(std::move(info)), {ctx.edge(0)});
    return std::nullopt;
}

}  // namespace

void define_resize(Definitions& all) {
    using enum AttributeKind;
    all.push_back({"Upsample",
                   7,
                   {1, 1},
                   {1, 1},
                   {{kAny}},
                   {{"mode", String}, {"scales", Floats, true}},
                   infer_resize,
                   lower_resize});
    all.push_back({"Upsample", 9, {2, 2}, {1, 1}, {{kAny}, {kFloats}}, {{"mode", String}}, infer_resize, lower_resize});
    all.push_back({"Upsample", 10, {}, {}, {}, {}, nullptr, nullptr});
    all.push_back({"Resize", 10, {2, 2}, {1, 1}, {{kAny}, {kFloats}}, {{"mode", String}}, infer_resize, lower_resize});
    std::vector<AttributeDef> attributes{{"coordinate_transformation_mode", String},
                                         {"cubic_coeff_a", Float},
                                         {"exclude_outside", Int},
                                         {"extrapolation_value", Float},
                                         {"mode", String},
                                         {"nearest_mode", String}};
    std::vector<InputDef> inputs{{kAny}, {kFloats}, {kFloats}, {kI64}};
    all.push_back({"Resize", 11, {3, 4}, {1, 1}, inputs, attributes, infer_resize, lower_resize});
    all.push_back({"Resize", 13, {1, 4}, {1, 1}, inputs, attributes, infer_resize, lower_resize});
    attributes.insert(attributes.end(), {{"antialias", Int}, {"axes", Ints}, {"keep_aspect_ratio_policy", String}});
    all.push_back({"Resize", 18, {1, 4}, {1, 1}, inputs, attributes, infer_resize, lower_resize});
}

}  // namespace refactor::onnx
