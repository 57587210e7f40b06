#include "resize/axis_taps.h"

#include "movement/movement.h"

#include <cmath>

namespace refactor::kernel {

namespace {

struct Axis {
    ResizeInfo const& info;
    int64_t in, out;
    float scale, start, end;  ///< scale: output / input; start, end: region of interest
    float length;             ///< of the output before it was rounded down
};

/// Coordinate in the input, in f32 as other implementations compute it, so that nearest neighbours agree.
float source_coordinate(Axis const& a, int64_t o) {
    auto x = static_cast<float>(o), in = static_cast<float>(a.in), out = static_cast<float>(a.out);
    bool resized = a.in != a.out || a.scale != 1 || a.info.coordinates == ResizeCoordinates::TfCropAndResize;
    if (!resized) return x;
    switch (a.info.coordinates) {
        case ResizeCoordinates::HalfPixel:
            return (x + 0.5f) / a.scale - 0.5f;
        case ResizeCoordinates::HalfPixelSymmetric: {
            auto offset = in / 2 * (1 - out / (a.scale * in));
            return offset + (x + 0.5f) / a.scale - 0.5f;
        }
        case ResizeCoordinates::PytorchHalfPixel:
            return a.out > 1 ? (x + 0.5f) / a.scale - 0.5f : 0;
        case ResizeCoordinates::AlignCorners:
            return a.length == 1 ? 0 : x * (in - 1) / (a.length - 1);
        case ResizeCoordinates::Asymmetric:
            // Of sizes the quotient is exact where it lies between two elements, that of a rounded scale is not.
            return a.info.scales.empty() ? x * in / out : x / a.scale;
        case ResizeCoordinates::TfHalfPixelForNn:
            return (x + 0.5f) / a.scale;
        case ResizeCoordinates::TfCropAndResize:
            if (a.length == 1) return 0.5f * (a.start + a.end) * (in - 1);
            return a.start * (in - 1) + x * (a.end - a.start) * (in - 1) / (a.length - 1);
    }
    return x;
}

int64_t nearest(ResizeRounding rounding, float x) {
    switch (rounding) {
        case ResizeRounding::RoundPreferFloor:
            return static_cast<int64_t>(x == std::floor(x) + 0.5f ? std::floor(x) : std::round(x));
        case ResizeRounding::RoundPreferCeil:
            return static_cast<int64_t>(x == std::floor(x) + 0.5f ? std::ceil(x) : std::round(x));
        case ResizeRounding::Floor:
            return static_cast<int64_t>(std::floor(x));
        case ResizeRounding::Ceil:
            return static_cast<int64_t>(std::ceil(x));
    }
    return 0;
}

double cubic_weight(double a, double x) {
    x = std::abs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

}  // namespace

AxisTaps AxisTaps::make(ResizeInfo const& info, size_t axis, size_t rank, int64_t in, int64_t out) {
    auto ratio = static_cast<float>(out) / static_cast<float>(std::max<int64_t>(in, 1));
    Axis a{info, in, out, info.scales.empty() ? ratio : info.scales[axis], 0, 1, static_cast<float>(out)};
    if (!info.scales.empty()) a.length = a.scale * static_cast<float>(in);
    if (info.roi.size() == 2 * rank) a.start = info.roi[axis], a.end = info.roi[rank + axis];
    AxisTaps result{in, out, 1, {}, {}, {}, {}, {}};
    // A minified axis is filtered over the wider support of a stretched kernel.
    double stretch = info.antialias ? std::min(1.f, a.scale) : 1;
    int64_t support = info.mode == ResizeMode::Cubic ? 2 : 1;
    auto first = static_cast<int64_t>(std::floor(-static_cast<double>(support) / stretch)) + 1;
    if (info.mode != ResizeMode::Nearest) result.taps = 2 - 2 * first;
    result.index.resize(out * result.taps), result.weight.resize(out * result.taps, 1.f);
    for (int64_t o = 0; o < out; ++o) {
        auto x = source_coordinate(a, o);
        if (info.coordinates == ResizeCoordinates::TfCropAndResize && (x < 0 || x > static_cast<float>(in - 1))) {
            result.outside.resize(out);
            result.outside[o] = 1;
        }
        auto* index = result.index.data() + o * result.taps;
        auto* weight = result.weight.data() + o * result.taps;
        if (info.mode == ResizeMode::Nearest) {
            index[0] = static_cast<int32_t>(std::clamp<int64_t>(nearest(info.rounding, x), 0, in - 1));
            continue;
        }
        // The left neighbour of an integral coordinate has weight zero.
        auto base = static_cast<int64_t>(std::ceil(x)) - 1;
        double sum = 0;
        for (int64_t k = 0; k < result.taps; ++k) {
            auto i = base + first + k;
            auto distance = (static_cast<double>(i) - static_cast<double>(x)) * stretch;
            auto w = info.mode == ResizeMode::Cubic ? cubic_weight(info.cubic_a, distance)
                                                    : std::max(0., 1 - std::abs(distance));
            if (info.exclude_outside && (i < 0 || i >= in)) w = 0;
            index[k] = static_cast<int32_t>(std::clamp<int64_t>(i, 0, in - 1));
            weight[k] = static_cast<float>(w);
            sum += w;
        }
        for (int64_t k = 0; k < result.taps; ++k) weight[k] = static_cast<float>(weight[k] / sum);
    }
    result.order_by_tap();
    return result;
}

void AxisTaps::order_by_tap() {
    tap_index.clear(), tap_weight.clear();
    for (int64_t k = 0; k < taps; ++k)
        for (int64_t o = 0; o < out; ++o) {
            tap_index.push_back(index[o * taps + k]);
            tap_weight.push_back(weight[o * taps + k]);
        }
}

AxisTaps AxisTaps::part(int64_t begin, int64_t end, int64_t& first) const {
    AxisTaps result{0, end - begin, taps, {}, {}, {}, {}, {}};
    result.index.assign(index.begin() + begin * taps, index.begin() + end * taps);
    result.weight.assign(weight.begin() + begin * taps, weight.begin() + end * taps);
    int64_t low = in, high = 0;
    for (size_t i = 0; i < result.index.size(); ++i) {
        if (result.weight[i] == 0) continue;
        low = std::min<int64_t>(low, result.index[i]), high = std::max<int64_t>(high, result.index[i] + 1);
    }
    first = std::min(low, in - 1), result.in = std::max<int64_t>(1, high - first);
    // Those without weight are not read.
    for (auto& i : result.index) i = static_cast<int32_t>(std::clamp<int64_t>(i - first, 0, result.in - 1));
    result.order_by_tap();
    return result;
}

ResizeFunctions const& resize_functions_of(Isa isa) {
#if RG_X86
    if (isa >= Isa::Avx512Bf16) return resize_functions_avx512bf16();
    if (isa >= Isa::Avx512) return resize_functions_avx512();
    if (isa >= Isa::Avx2) return resize_functions_avx2();
#endif
    static_cast<void>(isa);
    return resize_functions();
}

std::optional<Rejection> refuse_resize_shapes(ResizeInfo const& info, BindArgs const& args) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto rank = x.dims.size();
    bool fits = y.dims.size() == rank && (info.scales.empty() || info.scales.size() == rank);
    fits = fits && (y.count() == 0 || x.count() > 0);
    if (x.layout != Layout::Plain)
        fits = fits && y.layout == x.layout && rank > 2 && x.dims[0] == y.dims[0] && x.dims[1] == y.dims[1];
    if (fits) return std::nullopt;
    return Rejection{"input " + movement::to_string(x.dims) + ", output " + movement::to_string(y.dims) + ", " +
                     std::to_string(info.scales.size()) + " scales"};
}

namespace {

/// Blocked tensors as plain ones: [N, blocks, spatial…, block].
void split_channels(Layout layout, Dims& dims) {
    auto block = block_of(layout);
    if (block == 1) return;
    dims[1] = (dims[1] + block - 1) / block;
    dims.push_back(block);
}

}  // namespace

Result<std::vector<AxisTaps>, Rejection> axes_of(ResizeInfo const& info, BindArgs const& args) {
    if (auto no = refuse_resize_shapes(info, args)) return Err{*no};
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto in = x.dims, out = y.dims;
    split_channels(x.layout, in), split_channels(y.layout, out);
    std::vector<AxisTaps> axes;
    for (size_t i = 0; i < in.size(); ++i) {
        bool channels = x.layout != Layout::Plain && (i == 1 || i == x.dims.size());
        axes.push_back(channels ? AxisTaps::make({}, 0, 1, in[i], out[i])
                                : AxisTaps::make(info, i, x.dims.size(), in[i], out[i]));
    }
    return axes;
}

}  // namespace refactor::kernel
