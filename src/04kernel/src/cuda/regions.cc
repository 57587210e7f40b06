// RoiAlign and MaxRoiPool: one thread for each bin of each channel.
#include "cuda/generated.h"
#include "cuda/movement_kernels.h"
#include "max_roi_pool/max_roi_pool.h"
#include "roi_align/roi_align.h"

namespace refactor::kernel::cuda {

namespace {

// The formulas are those of roi_align/roi_align.cc.
constexpr char const* kAlignBody = R"cuda(
struct rg_align_args { rg_u64 x, rois, batches, y, fault, count, batch, sizes[2], scale, samples; rg_axis columns, rows, channels; };
// Two neighbours on one axis; a sample that is not inside counts as zero.
struct rg_tap { rg_i64 low, high; Real to_low, to_high; bool inside; };
RG_FN rg_tap rg_tap_at(Real at, rg_i64 size) {
    rg_tap tap;
    tap.inside = at >= -1 && at <= (Real)size;
    at = tap.inside ? rg_most(at, (Real)0) : 0;
    tap.low = (rg_i64)at;
    if (tap.low >= size - 1) tap.low = size - 1, at = (Real)tap.low;
    tap.high = rg_least(tap.low + 1, size - 1);
    tap.to_low = at - (Real)tap.low, tap.to_high = 1 - tap.to_low;
    return tap;
}
struct rg_span { Real start, bin; rg_i64 samples, size; bool possible; };
RG_FN rg_span rg_span_of(rg_align_args const& a, Real first, Real last, rg_u64 bins, rg_u64 size) {
    const Real offset = kHalfPixel ? (Real)0.5 : (Real)0, scale = (Real)rg_f64(a.scale);
    rg_span span;
    span.size = (rg_i64)size, span.start = first * scale - offset;
    Real length = last * scale - offset - span.start;
    if (!kHalfPixel) length = rg_most(length, (Real)1);
    span.bin = length / (Real)bins;
    // Bounds what hostile coordinates can cost.
    span.possible = a.samples > 0 || span.bin <= (Real)(4 * span.size + 64);
    span.samples = a.samples > 0 ? (rg_i64)a.samples : span.possible ? rg_most((rg_i64)m_ceil(span.bin), (rg_i64)0) : 0;
    return span;
}
RG_FN Real rg_sample_at(rg_span const& span, Index bin, rg_i64 k) {
    return span.start + (Real)bin * span.bin + ((Real)k + (Real)0.5) * span.bin / (Real)span.samples;
}
RG_GLOBAL rg_roi_align(rg_align_args a) {
    RG_WAIT();
    const rg_i64 height = (rg_i64)a.sizes[0], width = (rg_i64)a.sizes[1];
    RG_FOR(Index, i, (Index)a.count) {
        Index region = i;
        const Index column = rg_split(region, a.columns), row = rg_split(region, a.rows), channel = rg_split(region, a.channels);
        const rg_i64 batch = ((rg_i64 const*)a.batches)[region];
        Stored const* roi = (Stored const*)a.rois + region * 4;
        const rg_span rows = rg_span_of(a, rg_load(roi[1]), rg_load(roi[3]), a.rows.size, a.sizes[0]);
        const rg_span columns = rg_span_of(a, rg_load(roi[0]), rg_load(roi[2]), a.columns.size, a.sizes[1]);
        if ((rg_u64)batch >= a.batch || !rows.possible || !columns.possible) {
            rg_index_fault(a.fault, batch);
            ((Stored*)a.y)[i] = rg_store(0);
            continue;
        }
        Stored const* x = (Stored const*)a.x + ((rg_u64)batch * a.channels.size + channel) * (rg_u64)(height * width);
        Real sum = 0, best = -(Real)rg_f32(0x7f800000u);
        for (rg_i64 k = 0; k < rows.samples; ++k) {
            const rg_tap v = rg_tap_at(rg_sample_at(rows, row, k), height);
            for (rg_i64 l = 0; l < columns.samples; ++l) {
                const rg_tap h = rg_tap_at(rg_sample_at(columns, column, l), width);
                if (!v.inside || !h.inside) {
                    best = rg_most(best, (Real)0);
                    continue;
                }
                const Real p = rg_load(x[v.low * width + h.low]) * (v.to_high * h.to_high);
                const Real q = rg_load(x[v.low * width + h.high]) * (v.to_high * h.to_low);
                const Real r = rg_load(x[v.high * width + h.low]) * (v.to_low * h.to_high);
                const Real s = rg_load(x[v.high * width + h.high]) * (v.to_low * h.to_low);
                if (kMaximum) best = rg_most(best, rg_most(rg_most(p, q), rg_most(r, s)));
                else sum += p + q + r + s;
            }
        }
        const rg_i64 samples = rows.samples * columns.samples;
        ((Stored*)a.y)[i] = rg_store(samples <= 0 ? 0 : kMaximum ? best : sum / (Real)samples);
    }
}
)cuda";

// Whole elements under each bin. Source: Fast R-CNN (arXiv 1504.08083).
constexpr char const* kPoolBody = R"cuda(
struct rg_regions_args { rg_u64 x, rois, y, fault, count, batch, sizes[2], scale; rg_axis columns, rows, channels; };
RG_FN rg_i64 rg_bound(double at, rg_u64 size) { return at >= 0 ? (rg_i64)rg_least(at, (double)size) : 0; }
// Elements [begin, end) of one axis.
RG_FN void rg_bin(Real first, Real last, float scale, Index i, rg_u64 bins, rg_u64 size, rg_i64& begin, rg_i64& end) {
    const double start = roundf((float)first * scale), stop = roundf((float)last * scale);
    const double bin = rg_most(stop - start + 1, 1.) / (double)bins;
    begin = rg_bound(floor((double)i * bin) + start, size), end = rg_bound(ceil((double)(i + 1) * bin) + start, size);
}
RG_GLOBAL rg_max_roi_pool(rg_regions_args a) {
    RG_WAIT();
    const float scale = (float)rg_f64(a.scale);
    RG_FOR(Index, i, (Index)a.count) {
        Index region = i;
        const Index column = rg_split(region, a.columns), row = rg_split(region, a.rows), channel = rg_split(region, a.channels);
        Stored const* roi = (Stored const*)a.rois + region * 5;
        const Real batch = rg_load(roi[0]);
        Stored result = rg_store(0);
        if (!(batch >= 0 && batch < (Real)a.batch)) {
            rg_index_fault(a.fault, m_fabs(batch) < (Real)1e18 ? (rg_i64)batch : -1);
        } else {
            rg_i64 top, bottom, left, right;
            rg_bin(rg_load(roi[2]), rg_load(roi[4]), scale, row, a.rows.size, a.sizes[0], top, bottom);
            rg_bin(rg_load(roi[1]), rg_load(roi[3]), scale, column, a.columns.size, a.sizes[1], left, right);
            Stored const* x = (Stored const*)a.x + ((rg_u64)batch * a.channels.size + channel) * a.sizes[0] * a.sizes[1];
            bool any = false;
            for (rg_i64 r = top; r < bottom; ++r)
                for (rg_i64 c = left; c < right; ++c) {
                    const Stored value = x[r * (rg_i64)a.sizes[1] + c];
                    if (!any || !(rg_load(value) <= rg_load(result))) result = value;
                    any = true;
                }
        }
        ((Stored*)a.y)[i] = result;
    }
}
)cuda";

bool narrow(BindArgs const& args) {
    return args.inputs[0]->count() < kNarrow && args.outputs[0]->count() < kNarrow && args.inputs[1]->count() < kNarrow;
}

void add_bins(GeneratedLaunch& launch, TensorDesc const& y) {
    launch.add_axis(y.dims[3]), launch.add_axis(y.dims[2]), launch.add_axis(y.dims[1]);
}

Result<Launches, Rejection> bind_roi_align(RoiAlignInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    GeneratedLaunch launch;
    auto kind = index_kind(narrow(args)) + number_kind(x.dtype) + constant_kind("kHalfPixel", info.half_pixel) +
                constant_kind("kMaximum", info.maximum);
    launch.function = code.function("rg_roi_align", kind, kAlignBody);
    launch.blocks = blocks_for(y.count(), kBlockThreads);
    launch.on({0, 1, 2, 3, Address::kFault});
    launch.add(y.count()), launch.add(x.dims[0]), launch.add(x.dims[2]), launch.add(x.dims[3]);
    launch.add(info.spatial_scale), launch.add(std::max<int64_t>(0, info.sampling_ratio));
    add_bins(launch, y);
    return Launches{{launch}};
}

Result<Launches, Rejection> bind_max_roi_pool(MaxRoiPoolInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    GeneratedLaunch launch;
    launch.function = code.function("rg_max_roi_pool", index_kind(narrow(args)) + number_kind(x.dtype), kPoolBody);
    launch.blocks = blocks_for(y.count(), kBlockThreads);
    launch.on({0, 1, 2, Address::kFault});
    launch.add(y.count()), launch.add(x.dims[0]), launch.add(x.dims[2]), launch.add(x.dims[3]);
    launch.add(info.spatial_scale);
    add_bins(launch, y);
    return Launches{{launch}};
}

}  // namespace

KernelResult roi_align_nvrtc(RoiAlignInfo const& info, Request const& request) {
    return generate(info, "roi_align", request, roi_align_reference, bind_roi_align);
}
KernelResult max_roi_pool_nvrtc(MaxRoiPoolInfo const& info, Request const& request) {
    return generate(info, "max_roi_pool", request, max_roi_pool_reference, bind_max_roi_pool);
}

}  // namespace refactor::kernel::cuda
