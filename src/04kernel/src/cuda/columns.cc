// Col2Im and DeformColumns: between pictures and the columns of a sliding window.
#include "col2im/col2im.h"
#include "cuda/generated.h"
#include "cuda/movement_kernels.h"
#include "deform_columns/deform_columns.h"

namespace refactor::kernel::cuda {

namespace {

// Every element gathers the taps that reach it. Missing leading axes have size 1 and a window of 1.
constexpr char const* kPicturesBody = R"cuda(
struct rg_window { rg_axis size; rg_u64 places, kernel, stride, dilation, pad; };
struct rg_pictures_args { rg_u64 x, y, count; rg_window axes[3]; };
RG_GLOBAL rg_col2im(rg_pictures_args a) {
    RG_WAIT();
    rg_window const &z = a.axes[0], &h = a.axes[1], &w = a.axes[2];
    const rg_u64 positions = z.places * h.places * w.places, taps = z.kernel * h.kernel * w.kernel;
    // The place from which tap `k` reaches the element, -1 if there is none.
    auto place = [](rg_window const& axis, Index at, rg_u64 k) {
        const Signed from = (Signed)at + (Signed)axis.pad - (Signed)(k * axis.dilation), stride = (Signed)axis.stride;
        return from >= 0 && from % stride == 0 && from / stride < (Signed)axis.places ? from / stride : (Signed)-1;
    };
    RG_FOR(Index, i, (Index)a.count) {
        Index picture = i;
        const Index column = rg_split(picture, w.size), row = rg_split(picture, h.size), depth = rg_split(picture, z.size);
        Stored const* x = (Stored const*)a.x + picture * taps * positions;
        Total sum = 0;
        for (rg_u64 p = 0; p < z.kernel; ++p) {
            const Signed from_z = place(z, depth, p);
            for (rg_u64 q = 0; q < h.kernel && from_z >= 0; ++q) {
                const Signed from_h = place(h, row, q);
                for (rg_u64 r = 0; r < w.kernel && from_h >= 0; ++r) {
                    const Signed from_w = place(w, column, r);
                    if (from_w < 0) continue;
                    const rg_u64 tap = (p * h.kernel + q) * w.kernel + r;
                    const rg_u64 at = ((rg_u64)from_z * h.places + (rg_u64)from_h) * w.places + (rg_u64)from_w;
                    sum = rg_Add(sum, (Total)rg_load(x[tap * positions + at]));
                }
            }
        }
        ((Stored*)a.y)[i] = rg_store((Real)sum);
    }
}
)cuda";

constexpr char const* kColumnsBody = R"cuda(
struct rg_columns_args {
    rg_u64 x, offsets, mask, y, count;
    rg_axis width, height, taps_across, taps_down, channels, group;
    rg_u64 groups, sizes[2], strides[2], pads[2], dilations[2];
};
// The two elements around a coordinate, with weight 0 outside.
struct rg_pair_of { rg_i64 index[2]; Real weight[2]; };
RG_FN rg_pair_of rg_around(Real at, rg_i64 size) {
    if (!(at > (Real)-2)) at = -2;
    at = rg_least(at, (Real)size + 1);
    const Real base = m_floor(at);
    rg_pair_of pair;
    for (int k = 0; k < 2; ++k) {
        const rg_i64 i = (rg_i64)base + k;
        pair.index[k] = i >= 0 && i < size ? i : -1;
        pair.weight[k] = k ? at - base : 1 - (at - base);
    }
    return pair;
}
RG_GLOBAL rg_deform_columns(rg_columns_args a) {
    RG_WAIT();
    const rg_u64 positions = a.width.size * a.height.size, taps = a.taps_across.size * a.taps_down.size;
    RG_FOR(Index, i, (Index)a.count) {
        Index picture = i;
        const Index column = rg_split(picture, a.width), row = rg_split(picture, a.height);
        const Index across = rg_split(picture, a.taps_across), down = rg_split(picture, a.taps_down);
        const Index channel = rg_split(picture, a.channels), group = rg_quotient(channel, a.group);
        const rg_u64 position = row * a.width.size + column, tap = down * a.taps_across.size + across;
        const rg_u64 line = (picture * a.groups + group) * taps + tap;
        Stored const* offsets = (Stored const*)a.offsets + 2 * line * positions + position;
        auto coordinate = [&](int axis, Index place, Index part) {
            return (Real)((Signed)(place * (Index)a.strides[axis]) - (Signed)a.pads[axis] + (Signed)(part * (Index)a.dilations[axis])) +
                   rg_load(offsets[axis * positions]);
        };
        const rg_pair_of v = rg_around(coordinate(0, row, down), (rg_i64)a.sizes[0]);
        const rg_pair_of h = rg_around(coordinate(1, column, across), (rg_i64)a.sizes[1]);
        const Real share = a.mask ? rg_load(((Stored const*)a.mask)[line * positions + position]) : (Real)1;
        Stored const* x = (Stored const*)a.x + (picture * a.channels.size + channel) * a.sizes[0] * a.sizes[1];
        Real sum = 0;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const rg_i64 r = v.index[k / 2], c = h.index[k % 2];
            if (r >= 0 && c >= 0)
                sum += share * v.weight[k / 2] * h.weight[k % 2] * rg_load(x[r * (rg_i64)a.sizes[1] + c]);
        }
        ((Stored*)a.y)[i] = rg_store(sum);
    }
}
)cuda";

Result<Launches, Rejection> bind_col2im(Col2ImInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto axes = info.kernel.size();
    GeneratedLaunch launch;
    auto kind = index_kind(x.count() < kNarrow && y.count() < kNarrow) + number_kind(x.dtype) + "typedef " +
                (is_integer(x.dtype) ? "rg_u64" : "Real") + " Total;\n";
    launch.function = code.function("rg_col2im", kind, kPicturesBody);
    launch.blocks = blocks_for(y.count(), kBlockThreads);
    launch.on({0, 1});
    launch.add(y.count());
    for (size_t i = axes; i < 3; ++i) {
        launch.add_axis(1);
        for (int64_t word : {1, 1, 1, 1, 0}) launch.add(word);
    }
    for (size_t i = 0; i < axes; ++i) {
        auto const& w = info.window;
        auto span = y.dims[i + 2] + w.pads_begin[i] + w.pads_end[i] - w.dilations[i] * (info.kernel[i] - 1) - 1;
        launch.add_axis(y.dims[i + 2]);
        for (auto word :
             {span < 0 ? 0 : span / w.strides[i] + 1, info.kernel[i], w.strides[i], w.dilations[i], w.pads_begin[i]})
            launch.add(word);
    }
    return Launches{{launch}};
}

Result<Launches, Rejection> bind_columns(DeformColumnsInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &offsets = *args.inputs[1], &y = *args.outputs[0];
    bool masked = args.inputs.size() > 2 && args.inputs[2];
    bool narrow = x.count() < kNarrow && offsets.count() < kNarrow && y.count() < kNarrow;
    GeneratedLaunch launch;
    launch.function = code.function("rg_deform_columns", index_kind(narrow) + number_kind(x.dtype), kColumnsBody);
    launch.blocks = blocks_for(y.count(), kBlockThreads);
    launch.on({0, 1, masked ? 2 : Address::kNone, static_cast<int>(args.inputs.size())});
    launch.add(y.count()), launch.add_axis(offsets.dims[3]), launch.add_axis(offsets.dims[2]);
    launch.add_axis(info.kernel[1]), launch.add_axis(info.kernel[0]), launch.add_axis(x.dims[1]);
    launch.add_axis(x.dims[1] / info.groups), launch.add(info.groups);
    auto const& w = info.window;
    for (auto const& list : {Dims{x.dims[2], x.dims[3]}, w.strides, w.pads_begin, w.dilations})
        for (size_t i = 0; i < 2; ++i) launch.add(list[i]);
    return Launches{{launch}};
}

}  // namespace

KernelResult col2im_nvrtc(Col2ImInfo const& info, Request const& request) {
    return generate(info, "col2im", request, col2im_reference, bind_col2im);
}
KernelResult deform_columns_nvrtc(DeformColumnsInfo const& info, Request const& request) {
    return generate(info, "deform_columns", request, deform_columns_reference, bind_columns);
}

}  // namespace refactor::kernel::cuda
