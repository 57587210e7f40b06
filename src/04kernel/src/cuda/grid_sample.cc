#include "grid_sample/grid_sample.h"

#include "cuda/generated.h"
#include "cuda/movement_kernels.h"

namespace refactor::kernel::cuda {

namespace {

// The formulas are those of grid_sample/grid_taps.h. A thread takes one position for kChannels channels; axes that a
// picture does not have are of size 1.
constexpr char const* kSampleText = R"cuda(
enum { kNearest, kLinear, kCubic };
enum { kZeros, kBorder, kReflection };
constexpr int kPerAxis = kMode == kNearest ? 1 : kMode == kLinear ? 2 : 4;
struct rg_sample_args { rg_u64 x, grid, y, count; rg_axis positions, parts; rg_u64 channels, sizes[3]; };

RG_FN Place rg_low() { return kAlignCorners ? (Place)0 : (Place)-0.5; }
RG_FN Place rg_high(Place size) { return size - (kAlignCorners ? (Place)1 : (Place)0.5); }
// Reflects at the borders until x lies within; the distance between borders that coincide is no period.
RG_FN Place rg_reflected(Place x, Place low, Place high) {
    const Place range = high - low;
    if (!(range > 0)) return low;
    if (x >= low && x <= high) return x;
    const Place distance = x < low ? low - x : x - high, periods = m_floor(distance / range);
    const Place rest = distance - periods * range;
    const bool near_low = (x < low) == (m_fmod(periods, (Place)2) == 0);
    return near_low ? low + rest : high - rest;
}
// Coordinate in elements. Far outside, any coordinate that touches nothing will do.
RG_FN Place rg_source(Place n, Place size) {
    if (n != n) n = -1;
    Place x = kAlignCorners ? (n + 1) / 2 * (size - 1) : ((n + 1) * size - 1) / 2;
    if (kMode == kNearest) x = m_rint(x);
    if (!(m_fabs(x) < (Place)1e30)) x = x > 0 ? (Place)1e30 : (Place)-1e30;
    if (x < rg_low() || x > rg_high(size)) {
        if (kPadding == kBorder && kMode != kCubic) x = rg_within(x, (Place)0, size - 1);
        if (kPadding == kReflection) x = rg_reflected(x, rg_low(), rg_high(size));
    }
    return rg_within(x, (Place)-4, size + 4);
}
// Element that position `i` shows, -1 for zero.
RG_FN rg_i64 rg_element(rg_i64 i, rg_i64 size) {
    if (i >= 0 && i < size) return i;
    if (kPadding == kZeros) return -1;
    if (kPadding == kReflection) i = (rg_i64)rg_reflected((Place)i, rg_low(), rg_high((Place)size));
    return rg_within(i, (rg_i64)0, size - 1);
}
struct rg_taps { rg_i64 index[kPerAxis]; Place weight[kPerAxis]; };
RG_FN rg_taps rg_along(Place n, rg_u64 size) {
    const Place x = rg_source(n, (Place)size), base = m_floor(x), t = x - base;
    rg_taps taps;
    if constexpr (kMode == kNearest) {
        taps.weight[0] = 1;
    } else if constexpr (kMode == kLinear) {
        taps.weight[0] = 1 - t, taps.weight[1] = t;
    } else {
        const Place a = (Place)-0.75;  // Keys' kernel as PyTorch has it
        for (int k = 0; k < 4; ++k) {
            const Place d = m_fabs(t + 1 - k);
            taps.weight[k] = k == 0 || k == 3 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
                                              : ((a + 2) * d - (a + 3)) * d * d + 1;
        }
    }
    for (int k = 0; k < kPerAxis; ++k) taps.index[k] = rg_element((rg_i64)base - (kMode == kCubic) + k, (rg_i64)size);
    return taps;
}
)cuda";

constexpr char const* kSampleBody = R"cuda(
RG_GLOBAL rg_grid_sample(rg_sample_args a) {
    RG_WAIT();
    const Index plane = (Index)(a.sizes[0] * a.sizes[1] * a.sizes[2]), positions = (Index)a.positions.size;
    RG_FOR(Index, i, (Index)a.count) {
        Index picture = i;
        const Index position = rg_split(picture, a.positions), part = rg_split(picture, a.parts);
        const Index first = part * kChannels, last = rg_least(first + kChannels, (Index)a.channels);
        GridStored const* place = (GridStored const*)a.grid + (picture * positions + position) * kAxes;
        rg_taps taps[kAxes];
#pragma unroll
        for (int axis = 0; axis < kAxes; ++axis)
            taps[axis] = rg_along((Place)rg_load_grid(place[kAxes - 1 - axis]), a.sizes[3 - kAxes + axis]);
        for (Index channel = first; channel < last; ++channel) {
            Stored const* x = (Stored const*)a.x + (picture * (Index)a.channels + channel) * plane;
            Value value = {};
#pragma unroll
            for (int tap = 0; tap < kTaps; ++tap) {
                rg_i64 from = 0;
                Place weight = 1;
                bool inside = true;
                int rest = tap, unit = kTaps / kPerAxis;
#pragma unroll
                for (int axis = 0; axis < kAxes; ++axis, unit /= kPerAxis) {
                    const int k = rest / rg_most(unit, 1);
                    rest -= k * unit;
                    inside = inside && taps[axis].index[k] >= 0;
                    from = from * (rg_i64)a.sizes[3 - kAxes + axis] + taps[axis].index[k];
                    weight *= taps[axis].weight[k];
                }
                if (inside) rg_blend(value, weight, x[from]);
            }
            ((Stored*)a.y)[(picture * (Index)a.channels + channel) * positions + position] = rg_finish(value);
        }
    }
}
)cuda";

/// How a tap enters the result: as a weighted number, or as it is.
std::string blend_kind(GridSampleInfo const& info, DataType type) {
    if (info.mode == GridMode::Nearest)
        return word_kind("Stored", movement::element_bytes(type)) +
               "typedef Stored Value;\nRG_FN void rg_blend(Value& value, Place, Stored x) { value = x; }\n"
               "RG_FN Stored rg_finish(Value value) { return value; }\n";
    return number_kind(type) + saturation_kind(type) +
           "typedef Sum Value;\nRG_FN void rg_blend(Value& value, Place weight, Stored x) { value += (Sum)weight * "
           "(Sum)rg_load(x); }\nRG_FN Stored rg_finish(Value value) { return rg_saturated(value); }\n";
}

std::string grid_kind(DataType type) {
    auto of = [](char const* stored, char const* place, char const* load) {
        return std::string("typedef ") + stored + " GridStored; typedef " + place +
               " Place;\nRG_FN Place rg_load_grid(GridStored x) { return " + load + "(x); }\n";
    };
    switch (type) {
        case DataType::F64:
            return of("double", "double", "");
        case DataType::F16:
            return of("unsigned short", "float", "rg_from_f16");
        case DataType::BF16:
            return of("unsigned short", "float", "rg_from_bf16");
        default:
            return of("float", "float", "");
    }
}

Result<Launches, Rejection> bind_grid_sample(GridSampleInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &grid = *args.inputs[1], &y = *args.outputs[0];
    auto axes = x.dims.size() - 2;
    auto positions = movement::count_of(y.dims, 2, y.dims.size()), channels = x.dims[1];
    // Coordinates are worth sharing once there are threads enough to fill a card (about 2^18).
    int64_t together = 1;
    while (together < 16 && together < channels && y.count() / (2 * together) >= (1 << 18)) together *= 2;
    auto parts = (channels + together - 1) / together, count = x.dims[0] * parts * positions;
    auto per_axis = info.mode == GridMode::Nearest ? 1 : info.mode == GridMode::Linear ? 2 : 4;
    int64_t taps = 1;
    for (size_t i = 0; i < axes; ++i) taps *= per_axis;
    bool narrow = x.count() < kNarrow && grid.count() < kNarrow && y.count() < kNarrow;
    auto kind = index_kind(narrow) + grid_kind(grid.dtype) + blend_kind(info, x.dtype) +
                constant_kind("kMode", static_cast<int64_t>(info.mode)) +
                constant_kind("kPadding", static_cast<int64_t>(info.padding)) +
                constant_kind("kAlignCorners", info.align_corners) +
                constant_kind("kAxes", static_cast<int64_t>(axes)) + constant_kind("kTaps", taps) +
                constant_kind("kChannels", together) + kSampleText;
    GeneratedLaunch launch;
    launch.function = code.function("rg_grid_sample", kind, kSampleBody);
    launch.blocks = blocks_for(count, kBlockThreads);
    launch.on({0, 1, 2});
    launch.add(count), launch.add_axis(positions), launch.add_axis(parts), launch.add(channels);
    for (size_t i = 0; i < 3; ++i) launch.add(i + axes < 3 ? 1 : x.dims[i + axes - 1]);
    return Launches{{launch}};
}

}  // namespace

KernelResult grid_sample_nvrtc(GridSampleInfo const& info, Request const& request) {
    return generate(info, "grid_sample", request, grid_sample_reference, bind_grid_sample);
}

}  // namespace refactor::kernel::cuda
