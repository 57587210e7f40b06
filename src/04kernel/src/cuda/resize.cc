#include "resize/resize.h"

#include "cuda/generated.h"
#include "cuda/movement_kernels.h"
#include "resize/axis_taps.h"

#include <cmath>

namespace refactor::kernel::cuda {

namespace {

// The formulas are those of resize/axis_taps.cc. Axes that are not resized have their bit of kKept set.
constexpr char const* kCoordinateText = R"cuda(
enum { kNearest, kLinear, kCubic };
enum { kHalfPixel, kHalfPixelSymmetric, kPytorchHalfPixel, kAlignCorners, kAsymmetric, kTfCropAndResize, kTfHalfPixelForNn };
enum { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };
struct rg_resized { rg_axis out; rg_u64 in, step, scale, start, end, length, first, taps; };
struct rg_resize_args { rg_u64 x, y, count, cubic_a, extrapolation; rg_resized axes[kRank]; };

RG_FN float rg_number(rg_u64 bits) { return (float)rg_f64(bits); }
RG_FN float rg_coordinate(rg_resized const& axis, Index at) {
    const float x = (float)at, in = (float)axis.in, out = (float)axis.out.size, scale = rg_number(axis.scale);
    const float start = rg_number(axis.start), end = rg_number(axis.end), length = rg_number(axis.length);
    if (kCoordinates == kHalfPixel) return (x + 0.5f) / scale - 0.5f;
    if (kCoordinates == kHalfPixelSymmetric) return in / 2 * (1 - out / (scale * in)) + (x + 0.5f) / scale - 0.5f;
    if (kCoordinates == kPytorchHalfPixel) return axis.out.size > 1 ? (x + 0.5f) / scale - 0.5f : 0;
    if (kCoordinates == kAlignCorners) return length == 1 ? 0 : x * (in - 1) / (length - 1);
    if (kCoordinates == kAsymmetric) return x / scale;
    if (kCoordinates == kTfHalfPixelForNn) return (x + 0.5f) / scale;
    if (length == 1) return 0.5f * (start + end) * (in - 1);
    return start * (in - 1) + x * (end - start) * (in - 1) / (length - 1);
}
RG_FN bool rg_is_outside(rg_resized const& axis, float x) {
    return kCoordinates == kTfCropAndResize && (x < 0 || x > (float)(rg_i64)(axis.in - 1));
}
RG_FN Index rg_nearest(rg_resized const& axis, float x) {
    const float below = floorf(x);
    float nearest = roundf(x);
    if (kRounding == kFloor || (kRounding == kRoundPreferFloor && x == below + 0.5f)) nearest = below;
    if (kRounding == kCeil || (kRounding == kRoundPreferCeil && x == below + 0.5f)) nearest = ceilf(x);
    return (Index)rg_within((rg_i64)nearest, (rg_i64)0, (rg_i64)axis.in - 1);
}
)cuda";

constexpr char const* kMoveBody = R"cuda(
RG_GLOBAL rg_resize_nearest(rg_resize_args a) {
    RG_WAIT();
    rg_for_items<kItems, Word>((Index)a.count, [&](Index rest) {
        Index from = 0;
#pragma unroll
        for (int axis = kRank - 1; axis >= 0; --axis) {
            Index at = rg_split(rest, a.axes[axis].out);
            if (!(kKept >> axis & 1)) at = rg_nearest(a.axes[axis], rg_coordinate(a.axes[axis], at));
            from += at * (Index)a.axes[axis].step;
        }
        return ((Word const*)a.x)[from];
    }, [&](Index i, Word word) { ((Word*)a.y)[i] = word; });
}
)cuda";

// A weight is computed where it is used, which costs less than keeping it.
constexpr char const* kBlendBody = R"cuda(
struct rg_place { rg_i64 base; float x; Sum total; Index at; };
RG_FN int rg_taps(rg_resized const& axis) { return kAntialias ? (int)axis.taps : kMode == kCubic ? 4 : kMode == kLinear ? 2 : 1; }
RG_FN Sum rg_weight(rg_resize_args const& a, rg_resized const& axis, rg_place const& place, int tap) {
    const rg_i64 i = place.base + (rg_i64)axis.first + tap;
    if (kMode == kNearest) return 1;
    if (kExcludeOutside && (i < 0 || i >= (rg_i64)axis.in)) return 0;
    const Sum stretch = kAntialias ? (Sum)rg_least(1.f, rg_number(axis.scale)) : (Sum)1;
    const Sum distance = m_fabs(((Sum)i - (Sum)place.x) * stretch);
    if (kMode == kLinear) return rg_most((Sum)0, 1 - distance);
    const Sum k = (Sum)rg_f64(a.cubic_a);
    // Keys' polynomials by their roots, which cancels less.
    if (distance <= 1) return (distance - 1) * (((k + 2) * distance - 1) * distance - 1);
    return distance < 2 ? k * (distance - 1) * (distance - 2) * (distance - 2) : 0;
}
// The left neighbour of an integral coordinate has weight zero.
RG_FN rg_place rg_locate(rg_resize_args const& a, rg_resized const& axis, Index at, bool& outside) {
    const float x = rg_coordinate(axis, at);
    outside = outside || rg_is_outside(axis, x);
    rg_place place = {kMode == kNearest ? (rg_i64)rg_nearest(axis, x) : (rg_i64)ceilf(x) - 1, x, 0, at};
    for (int tap = 0; tap < rg_taps(axis); ++tap) place.total += rg_weight(a, axis, place, tap);
    return place;
}
template <int kAxis> RG_FN Sum rg_sum(rg_resize_args const& a, Stored const* x, rg_place const* places) {
    if constexpr (kAxis == kRank) {
        return (Sum)rg_load(*x);
    } else {
        rg_resized const& axis = a.axes[kAxis];
        rg_place const& place = places[kAxis];
        if constexpr ((kKept >> kAxis & 1) != 0) return rg_sum<kAxis + 1>(a, x + place.at * (Index)axis.step, places);
        Sum sum = 0;
#pragma unroll
        for (int tap = 0; tap < rg_taps(axis); ++tap) {
            const Sum weight = (Sum)(float)(rg_weight(a, axis, place, tap) / place.total);
            const rg_i64 i = rg_within(place.base + (rg_i64)axis.first + tap, (rg_i64)0, (rg_i64)axis.in - 1);
            if (weight != 0) sum += weight * rg_sum<kAxis + 1>(a, x + (Index)i * (Index)axis.step, places);
        }
        return sum;
    }
}
RG_GLOBAL rg_resize(rg_resize_args a) {
    RG_WAIT();
    RG_FOR(Index, i, (Index)a.count) {
        rg_place places[kRank];
        Index rest = i;
        bool outside = false;
#pragma unroll
        for (int axis = kRank - 1; axis >= 0; --axis) {
            const Index at = rg_split(rest, a.axes[axis].out);
            if (kKept >> axis & 1) places[axis].at = at;
            else places[axis] = rg_locate(a, a.axes[axis], at, outside);
        }
        const Sum value = outside ? (Sum)rg_f64(a.extrapolation) : rg_sum<0>(a, (Stored const*)a.x, places);
        ((Stored*)a.y)[i] = rg_saturated(value);
    }
}
)cuda";

struct ResizedAxis {
    int64_t in, out, step, first = 0, taps = 1;
    float scale = 1, start = 0, end = 1, length = 1;
    bool kept = true;
};

/// Whether every element stays what and where it is.
bool keeps(ResizeInfo const& info, float scale, int64_t in, int64_t out) {
    return in == out && scale == 1 && info.coordinates != ResizeCoordinates::TfCropAndResize;
}

std::vector<ResizedAxis> axes_of(ResizeInfo const& info, Dims const& x, Dims const& y) {
    auto rank = x.size();
    auto strides = movement::strides_of(x);
    std::vector<ResizedAxis> axes;
    for (size_t i = 0; i < rank; ++i) {
        ResizedAxis axis{x[i], y[i], strides[i]};
        auto ratio = static_cast<float>(axis.out) / static_cast<float>(std::max<int64_t>(axis.in, 1));
        axis.scale = info.scales.empty() ? ratio : info.scales[i];
        axis.length = info.scales.empty() ? static_cast<float>(axis.out) : axis.scale * static_cast<float>(axis.in);
        if (info.roi.size() == 2 * rank) axis.start = info.roi[i], axis.end = info.roi[rank + i];
        axis.kept = keeps(info, axis.scale, axis.in, axis.out);
        double stretch = info.antialias ? std::min(1.f, axis.scale) : 1;
        auto support = info.mode == ResizeMode::Cubic ? 2. : 1.;
        axis.first = static_cast<int64_t>(std::floor(-support / stretch)) + 1;
        axis.taps = info.mode == ResizeMode::Nearest ? 1 : 2 - 2 * axis.first;
        if (info.mode == ResizeMode::Nearest) axis.first = 0;
        if (axis.kept && axis.in == 1) continue;
        if (axis.kept && !axes.empty() && axes.back().kept)
            axes.back().in *= axis.in, axes.back().out *= axis.out, axes.back().step = axis.step;
        else
            axes.push_back(axis);
    }
    if (axes.empty()) axes.push_back({1, 1, 1});
    return axes;
}

Result<Launches, Rejection> bind_resize(ResizeInfo const& info, BindArgs const& args, Code const& code) {
    if (auto no = refuse_resize_shapes(info, args)) return Err{*no};
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto axes = axes_of(info, x.dims, y.dims);
    int64_t kept = 0;
    for (size_t i = 0; i < axes.size(); ++i) kept |= int64_t{axes[i].kept} << i;
    auto kind = index_kind(x.count() < kNarrow && y.count() < kNarrow) +
                constant_kind("kMode", static_cast<int64_t>(info.mode)) +
                constant_kind("kCoordinates", static_cast<int64_t>(info.coordinates)) +
                constant_kind("kRounding", static_cast<int64_t>(info.rounding)) + constant_kind("kKept", kept) +
                constant_kind("kRank", static_cast<int64_t>(axes.size()));
    bool moves = info.mode == ResizeMode::Nearest && info.coordinates != ResizeCoordinates::TfCropAndResize;
    auto bytes = movement::element_bytes(x.dtype), items = moves ? items_of(bytes) : 1;
    if (moves)
        kind += word_kind("Word", bytes) + constant_kind("kItems", items);
    else
        kind += number_kind(x.dtype) + saturation_kind(x.dtype) +
                constant_kind("kExcludeOutside", info.exclude_outside) + constant_kind("kAntialias", info.antialias);
    GeneratedLaunch launch;
    launch.function = code.function(moves ? "rg_resize_nearest" : "rg_resize", kind + kCoordinateText,
                                    moves ? kMoveBody : kBlendBody);
    launch.blocks = blocks_for(y.count(), items * kBlockThreads);
    launch.on({0, static_cast<int>(args.inputs.size())});
    launch.add(y.count()), launch.add(info.cubic_a), launch.add(info.extrapolation);
    for (auto const& axis : axes) {
        launch.add_axis(axis.out), launch.add(axis.in), launch.add(axis.step);
        for (auto number : {axis.scale, axis.start, axis.end, axis.length}) launch.add(number);
        launch.add(axis.first), launch.add(axis.taps);
    }
    return Launches{{launch}};
}

}  // namespace

KernelResult resize_nvrtc(ResizeInfo const& info, Request const& request) {
    return generate(info, "resize", request, resize_reference, bind_resize, Check::ByBind);
}

}  // namespace refactor::kernel::cuda
