#include "kernel/ops/movement.h"
#include "operator_def.h"

#include <cmath>

// F.interpolate under its names, and padding.

namespace refactor::pnnx {

namespace {

using kernel::ResizeCoordinates;
using kernel::ResizeInfo;
using kernel::ResizeMode;
using kernel::ResizeRounding;

std::string mode_of(Call& c) {
    if (c.type.find("nearest") != c.type.npos || c.type.find("Nearest") != c.type.npos) return "nearest";
    if (c.type.find("ilinear") != c.type.npos) return "bilinear";
    return c.text("mode", "nearest");
}

ResizeInfo options_of(Call& c) {
    auto mode = mode_of(c);
    bool old_bilinear = c.type.find("UpsamplingBilinear") != c.type.npos || c.type == "F.upsample_bilinear";
    bool corners = c.flag("align_corners", old_bilinear);
    ResizeInfo info;
    info.antialias = c.flag("antialias", false) || c.type.ends_with("_aa");
    if (mode == "nearest") {
        info.coordinates = ResizeCoordinates::Asymmetric, info.rounding = ResizeRounding::Floor;
    } else if (mode == "nearest-exact") {
        // Half a pixel further and rounded down is the pixel itself rounded up from its half.
        info.rounding = ResizeRounding::RoundPreferCeil;
    } else if (mode == "linear" || mode == "bilinear" || mode == "trilinear") {
        info.mode = ResizeMode::Linear;
    } else if (mode == "bicubic") {
        info.mode = ResizeMode::Cubic;
        if (info.antialias) info.cubic_a = -0.5f;
    } else {
        refuse_unsupported("mode = ", mode);
    }
    if (corners && mode != "nearest") info.coordinates = ResizeCoordinates::AlignCorners;
    info.exclude_outside = info.antialias;
    return info;
}

/// floor(size · scale). A symbolic size takes scales that are fractions of small numbers only.
DimExpr scaled(DimExpr const& size, double scale) {
    if (!(scale > 0) || !(scale < 1e9)) refuse_invalid("scale_factor has the entry ", scale);
    auto product = multiply(Scalar::of_int(size), Scalar::of_float(scale));
    if (auto number = size.constant()) return static_cast<int64_t>(std::floor(static_cast<double>(*number) * scale));
    auto result = product ? round_to(*product, Scalar::Rounding::Floor, true) : std::nullopt;
    if (!result) refuse_unsupported("the scale ", scale, " on an axis of unknown size");
    return *result->integer();
}

void build_interpolate(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 3, 5, "the input");
    auto count = Call::rank(x) - 2;
    auto info = options_of(c);
    auto target = Call::shape(x);
    if (c.has("size")) {
        auto sizes = c.sizes("size");
        if (sizes.size() == 1) sizes.resize(count, sizes[0]);
        if (sizes.size() != count) refuse_invalid("size has ", sizes.size(), " entries, expected ", count);
        for (size_t i = 0; i < count; ++i) {
            if (sizes[i].constant().value_or(1) < 1) refuse_invalid("size has the entry ", *sizes[i].constant());
            target[i + 2] = sizes[i];
        }
    } else {
        auto factors = c.numbers("scale_factor");
        if (factors.size() == 1) factors.resize(count, factors[0]);
        if (factors.size() != count) refuse_invalid("scale_factor has ", factors.size(), " entries, expected ", count);
        for (size_t i = 0; i < count; ++i) target[i + 2] = scaled(target[i + 2], factors[i]);
        if (!c.flag("recompute_scale_factor", false)) {
            info.scales.assign(count + 2, 1);
            for (size_t i = 0; i < count; ++i) info.scales[i + 2] = static_cast<float>(factors[i]);
        }
    }
    bool same = target == Call::shape(x) && info.scales.empty();
    c.set(same ? x : c.emit(std::move(info), {x}, Call::type_of(x), std::move(target)));
}

/// "nn.ReflectionPad2d" → its mode
std::string pad_mode(Call& c) {
    for (auto [word, mode] :
         {std::pair{"Reflection", "reflect"}, {"Replication", "replicate"}, {"Circular", "circular"}})
        if (c.type.find(word) != c.type.npos) return mode;
    return c.text("mode", "constant");
}

/// Pads are pairs of the last axes first; negative ones cut.
void build_pad(Call& c) {
    auto* x = c.tensor("input");
    auto given = c.sizes(c.has("pad") ? "pad" : "padding");
    bool module = c.type.starts_with("nn.");
    auto axes = module ? static_cast<size_t>(c.type[c.type.size() - 2] - '0') : given.size() / 2;
    if (module && given.size() == 1) given.resize(2 * axes, given[0]);
    if (given.size() != 2 * axes || given.size() % 2 || axes > Call::rank(x))
        refuse_invalid("the pads have ", given.size(), " entries for an input with ", Call::rank(x), " axes");
    kernel::PadInfo info;
    auto mode = pad_mode(c);
    if (mode == "reflect")
        info.mode = kernel::PadMode::Reflect;
    else if (mode == "replicate")
        info.mode = kernel::PadMode::Edge;
    else if (mode == "circular")
        info.mode = kernel::PadMode::Wrap;
    else if (mode != "constant")
        refuse_invalid("mode is \"", mode, "\", expected constant, reflect, replicate or circular");
    auto target = Call::shape(x);
    std::vector<DimExpr> begins(target.size());
    for (size_t i = 0; i < axes; ++i) {
        auto axis = Call::rank(x) - 1 - i;
        begins[axis] = given[2 * i];
        auto const size = target[axis];
        target[axis] = size + given[2 * i] + given[2 * i + 1];
        if (mode == "constant" || !size.constant()) continue;
        auto limit = *size.constant() - (mode == "reflect");
        for (auto pad : {given[2 * i], given[2 * i + 1]})
            if (mode != "replicate" && pad.constant().value_or(0) > limit)
                refuse_invalid("the pad ", *pad.constant(), " is larger than axis ", axis, " allows: ", limit);
    }
    std::vector<Edge> inputs{x};
    auto value = c.number("value", 0);
    if (mode == "constant" && value != 0) inputs.push_back(c.scalar(Call::type_of(x), value));
    c.set(c.emit(info, inputs, Call::type_of(x), std::move(target), std::move(begins)));
}

}  // namespace

void define_resize(Definitions& all) {
    constexpr std::string_view kResize = "input size scale_factor mode align_corners recompute_scale_factor antialias";
    all.push_back(
        {"F.interpolate F.upsample F.upsample_nearest F.upsample_bilinear nn.Upsample nn.UpsamplingNearest2d "
         "nn.UpsamplingBilinear2d",
         kResize, build_interpolate});
    all.push_back({"aten::_upsample_bilinear2d_aa", "input size align_corners scale_h scale_w", build_interpolate});
    all.push_back({"F.pad aten::pad", "input pad mode value", build_pad});
    all.push_back(
        {"nn.ConstantPad1d nn.ConstantPad2d nn.ConstantPad3d nn.ZeroPad1d nn.ZeroPad2d nn.ZeroPad3d "
         "nn.ReflectionPad1d nn.ReflectionPad2d nn.ReflectionPad3d nn.ReplicationPad1d nn.ReplicationPad2d "
         "nn.ReplicationPad3d nn.CircularPad1d nn.CircularPad2d nn.CircularPad3d",
         "input padding value", build_pad});
}

}  // namespace refactor::pnnx
