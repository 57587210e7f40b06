#include "roi_align/roi_align.h"

#include "common/error.h"
#include "cuda/movement_kernels.h"
#include "movement/indices.h"
#include "movement/ranges.h"
#include "reduce/scalar_type.h"
#include "roi_align/roi_tile.h"

#include <cmath>

namespace refactor::kernel {

using movement::make_task;
using movement::TaskResult;

std::string RoiAlignInfo::attributes() const {
    return std::string(maximum ? "max" : "average") + (half_pixel ? ",half_pixel" : "") +
           ",sampling_ratio=" + std::to_string(sampling_ratio) + ",scale=" + exact_text(spatial_scale);
}

Candidates candidates(RoiAlignInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("roi_align:nvidia:nvrtc", cuda::roi_align_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "roi_align/roi_align_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

struct Shapes {
    int64_t batch, channels, size[2], rois, bins[2];
};

Result<Shapes, Rejection> shapes_of(BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &rois = args.inputs[1]->dims, &batch = args.inputs[2]->dims;
    auto const& y = args.outputs[0]->dims;
    bool fits = x.size() == 4 && rois.size() == 2 && rois[1] == 4 && batch.size() == 1 && batch[0] == rois[0] &&
                y.size() == 4 && y[0] == rois[0] && y[1] == x[1] && (x[2] * x[3] > 0 || args.outputs[0]->count() == 0);
    if (fits) return Shapes{x[0], x[1], {x[2], x[3]}, rois[0], {y[2], y[3]}};
    return Err{Rejection{"input " + movement::to_string(x) + ", regions " + movement::to_string(rois) +
                         ", batch indices " + movement::to_string(batch) + ", output " + movement::to_string(y)}};
}

/// Two neighbours on one axis; a sample that is not `inside` counts as zero.
template <class F>
struct Tap {
    int64_t low, high;
    F to_low, to_high;  ///< weights of the high and the low neighbour: the distances to the other one
    bool inside;

    Tap() = default;
    Tap(F at, int64_t size) {
        inside = at >= F(-1) && at <= static_cast<F>(size);
        at = inside ? std::max(at, F(0)) : F(0);
        low = static_cast<int64_t>(at);
        if (low >= size - 1) low = size - 1, at = static_cast<F>(low);
        high = std::min(low + 1, size - 1);
        to_low = at - static_cast<F>(low), to_high = 1 - to_low;
    }
};

/// One axis of a region: `samples` places in each of `bins` bins.
template <class F>
struct RoiAxis {
    F start, bin;
    int64_t samples, size;

    RoiAxis(RoiAlignInfo const& info, F first, F last, int64_t bins, int64_t elements) : size(elements) {
        auto offset = info.half_pixel ? F(0.5) : F(0), scale = static_cast<F>(info.spatial_scale);
        start = first * scale - offset;
        auto length = last * scale - offset - start;
        if (!info.half_pixel) length = std::max(length, F(1));
        bin = length / static_cast<F>(bins);
        // Bounds what hostile coordinates can cost: a region may be a few times as large as the picture.
        auto most = static_cast<F>(4 * size + 64);
        if (info.sampling_ratio == 0 && !(bin <= most))
            throw InvalidInput("RoiAlign: a region from " + std::to_string(first) + " to " + std::to_string(last) +
                               " has bins of " + std::to_string(bin) + " elements, at most " + std::to_string(most) +
                               " are possible");
        samples =
            info.sampling_ratio > 0 ? info.sampling_ratio : std::max<int64_t>(0, static_cast<int64_t>(std::ceil(bin)));
    }
    /// Sample `i`, counted through all bins.
    Tap<F> tap(int64_t i) const {
        auto b = static_cast<F>(i / samples), s = static_cast<F>(i % samples);
        return {start + b * bin + (s + F(0.5)) * bin / static_cast<F>(samples), size};
    }
};

/// Taps of an axis, computed once for all channels if they fit: 256 of 32 bytes are 8 KiB of L1.
template <class F>
class AxisTable {
    static constexpr int64_t kEntries = 256;
    RoiAxis<F> const& axis_;
    Tap<F> taps_[kEntries];
    bool full_;

public:
    AxisTable(RoiAxis<F> const& axis, int64_t bins) : axis_(axis), full_(axis.samples * bins <= kEntries) {
        for (int64_t i = 0; full_ && i < axis.samples * bins; ++i) taps_[i] = axis.tap(i);
    }
    Tap<F> operator[](int64_t i) const { return full_ ? taps_[i] : axis_.tap(i); }
};

template <class F, class T>
F load(T const* x, int64_t i) {
    return static_cast<F>(widen(x[i]));
}

/// One bin of one channel.
template <class F, class T>
F pool(RoiAxis<F> const* axes, AxisTable<F> const& rows, AxisTable<F> const& columns, int64_t row, int64_t column,
       bool maximum, T const* x, int64_t width) {
    F sum = 0, best = -std::numeric_limits<F>::infinity();
    auto n = axes[0].samples, m = axes[1].samples;
    for (auto i = row * n; i < (row + 1) * n; ++i) {
        auto v = rows[i];
        for (auto j = column * m; j < (column + 1) * m; ++j) {
            auto h = columns[j];
            if (!v.inside || !h.inside) {
                best = std::max(best, F(0));
                continue;
            }
            auto a = load<F>(x, v.low * width + h.low) * (v.to_high * h.to_high);
            auto b = load<F>(x, v.low * width + h.high) * (v.to_high * h.to_low);
            auto c = load<F>(x, v.high * width + h.low) * (v.to_low * h.to_high);
            auto d = load<F>(x, v.high * width + h.high) * (v.to_low * h.to_low);
            if (maximum)
                best = std::max(best, std::max(std::max(a, b), std::max(c, d)));
            else
                sum += a + b + c + d;
        }
    }
    if (n * m <= 0) return 0;
    return maximum ? best : sum / static_cast<F>(n * m);
}

/// The channels [first, last) of region `r`.
template <class T, class F>
void run_region(RoiAlignInfo const& info, Shapes const& s, RoiAxis<F> const* axes, T const* x, T* y, int64_t channels) {
    auto plane = s.size[0] * s.size[1], bins = s.bins[0] * s.bins[1];
    AxisTable<F> rows(axes[0], s.bins[0]), columns(axes[1], s.bins[1]);
    for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < bins; ++i)
            y[c * bins + i] = narrow<T>(
                pool<F>(axes, rows, columns, i / s.bins[1], i % s.bins[1], info.maximum, x + c * plane, s.size[1]));
}

/// Calls `region(axes, x, y, channels)` for parts of the channels of all regions, `least` or more channels at a time.
template <class T, class Region>
void each_region(RoiAlignInfo const& info, Shapes const& s, void* const* a, ThreadPool& threads, int64_t least,
                 Region const& region) {
    using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
    auto *x = static_cast<T const*>(a[0]), *rois = static_cast<T const*>(a[1]);
    auto* batch = static_cast<int64_t const*>(a[2]);
    auto* y = static_cast<T*>(a[3]);
    auto plane = s.size[0] * s.size[1], bins = s.bins[0] * s.bins[1];
    // Channels are cut so that a few regions keep all threads busy.
    auto wanted = (4 * threads.threads() + s.rois - 1) / std::max<int64_t>(1, s.rois);
    auto parts = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, s.channels / least));
    auto ns = 10. * static_cast<double>(s.channels * bins) / static_cast<double>(parts);
    movement::for_ranges(threads, s.rois * parts, ns, [&](int64_t begin, int64_t end) {
        for (auto item = begin; item < end; ++item) {
            auto r = item / parts, part = item % parts;
            auto first = s.channels * part / parts, last = s.channels * (part + 1) / parts;
            if (batch[r] < 0 || batch[r] >= s.batch) movement::throw_index("RoiAlign", batch[r], r, 0, s.batch);
            RoiAxis<F> const axes[]{{info, load<F>(rois, 4 * r + 1), load<F>(rois, 4 * r + 3), s.bins[0], s.size[0]},
                                    {info, load<F>(rois, 4 * r), load<F>(rois, 4 * r + 2), s.bins[1], s.size[1]}};
            region(axes, x + (batch[r] * s.channels + first) * plane, y + (r * s.channels + first) * bins,
                   last - first);
        }
    });
}

TaskResult bind_reference(RoiAlignInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(args);
    if (!shapes) return Err{shapes.error()};
    return make_task(
        [info, s = *shapes, type = args.inputs[0]->dtype](void* const* a, runtime::RunContext const& context) {
            visit_float(type, [&](auto tag) {
                using T = typename decltype(tag)::type;
                each_region<T>(info, s, a, context.pool, 32, [&](auto const* axes, T const* x, T* y, int64_t channels) {
                    run_region(info, s, axes, x, y, channels);
                });
            });
        });
}

#if RG_X86
/// The tables of a region; `fits` tells whether they hold it.
struct RoiTables {
    int64_t first[kRoiRows + 1], offset[kRoiRows], begin = 0, width = 0;
    float weight[kRoiRows];
    PairBlock columns;
    bool fits = true;

    RoiTables(Shapes const& s, RoiAxis<float> const* axes) {
        auto n = axes[0].samples, m = axes[1].samples;
        fits = n > 0 && m > 0 && n <= kRoiRows && m <= kBlockPairs && n * s.bins[0] * 2 <= kRoiRows &&
               m * pair_step(static_cast<int>(s.bins[1])) <= kBlockPairs;
        if (!fits) return;
        add_rows(s, axes[0], 1 / static_cast<float>(n * m));
        add_columns(s, axes[1]);
    }

private:
    void add_rows(Shapes const& s, RoiAxis<float> const& axis, float share) {
        int64_t n = 0;
        auto add = [&](int64_t bin, int64_t row, float w) {
            // Samples of a bin go downwards and so meet their rows again.
            for (auto k = n; k-- > std::max(first[bin], n - 2);)
                if (offset[k] == row * s.size[1]) {
                    weight[k] += w * share;
                    return;
                }
            offset[n] = row * s.size[1], weight[n++] = w * share;
        };
        for (int64_t bin = 0; bin < s.bins[0]; ++bin) {
            first[bin] = n;
            for (auto i = bin * axis.samples; i < (bin + 1) * axis.samples; ++i) {
                auto tap = axis.tap(i);
                if (tap.inside) add(bin, tap.low, tap.to_high), add(bin, tap.high, tap.to_low);
            }
        }
        first[s.bins[0]] = n;
    }
    void add_columns(Shapes const& s, RoiAxis<float> const& axis) {
        int const count = static_cast<int>(s.bins[1]), step = pair_step(count);
        int64_t low = s.size[1], high = 0;
        columns.masked = false;
        for (int k = 0; k < static_cast<int>(axis.samples); ++k)
            for (int p = 0; p < step; ++p) {
                auto tap = axis.tap(std::min(p, count - 1) * axis.samples + k);
                // The last column has none behind it: a pair begins before it.
                auto start = std::min(tap.low, s.size[1] - 2);
                bool moved = start != tap.low;
                int i = k * step + p, slot = pair_slot(i);
                columns.start[i] = static_cast<int32_t>(start);
                columns.weight[slot] = moved ? 0 : tap.to_high, columns.weight[slot + 1] = moved ? 1 : tap.to_low;
                columns.mask[slot] = tap.inside && !moved ? ~0u : 0;
                columns.mask[slot + 1] = tap.inside ? ~0u : 0;
                columns.masked = columns.masked || moved || !tap.inside;
                low = std::min(low, start), high = std::max(high, start + 2);
            }
        for (int64_t i = 0; i < axis.samples * step; ++i) columns.start[i] -= static_cast<int32_t>(low);
        begin = low, width = high - low;
        fits = width <= kRoiWidth;
    }
};

TaskResult bind_tiles(RoiAlignInfo const& info, BindArgs const& args, Isa isa) {
    auto shapes = shapes_of(args);
    if (!shapes) return Err{shapes.error()};
    if (shapes->size[1] < 2 || shapes->size[1] > INT32_MAX || shapes->bins[0] > kRoiRows ||
        shapes->bins[1] > kBlockPairs)
        return bind_reference(info, args, isa);
    return make_task([info, s = *shapes](void* const* a, runtime::RunContext const& context) {
        auto region = [&](RoiAxis<float> const* axes, float const* x, float* y, int64_t channels) {
            RoiTables tables(s, axes);
            if (!tables.fits) return run_region(info, s, axes, x, y, channels);
            roi_tile_avx2({x + tables.begin,
                           y,
                           s.size[0] * s.size[1],
                           channels,
                           {s.bins[0], s.bins[1]},
                           tables.width,
                           tables.first,
                           tables.offset,
                           tables.weight,
                           &tables.columns,
                           static_cast<int>(axes[1].samples)});
        };
        each_region<float>(info, s, a, context.pool, 32, region);
    });
}
#endif

std::optional<Rejection> refuse_types(Request const& request) {
    if (auto no = movement::refuse(request, {.min_inputs = 3, .max_inputs = 3})) return no;
    if (is_any_float(request.inputs[0].dtype) && request.inputs[1].dtype == request.inputs[0].dtype &&
        request.inputs[2].dtype == DataType::I64)
        return std::nullopt;
    return Rejection{"expects floats, regions of the same type and i64 batch indices"};
}

}  // namespace

movement::KernelResult roi_align_tiles(RoiAlignInfo const& info, Request const& request) {
    if (auto no = refuse_types(request)) return Err{*no};
    if (request.inputs[0].dtype != DataType::F32 || info.maximum)
        return Err{Rejection{info.attributes() + " of " + std::string(name_of(request.inputs[0].dtype)) +
                             ", expected averages of f32"}};
#if RG_X86
    if (request.isa >= Isa::Avx2)
        return movement::KernelResult(std::make_unique<movement::InfoKernel<RoiAlignInfo>>(
            info, movement::make_id("roi_align", "tiles", request, name_of(Isa::Avx2)), Isa::Avx2, bind_tiles));
#endif
    return Err{Rejection{"needs avx2, allowed is " + std::string(name_of(request.isa))}};
}

movement::KernelResult roi_align_reference(RoiAlignInfo const& info, Request const& request) {
    if (auto no = refuse_types(request)) return Err{*no};
    return movement::make_kernel(info, "roi_align", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
