#pragma once
#include "common/error.h"
#include "common/thread_pool.h"
#include "movement/indices.h"
#include "movement/ranges.h"
#include "reduce/scalar_type.h"
#include "roi_align/roi_align.h"

#include <algorithm>
#include <cmath>
#include <limits>

/// Regions and their samples, as the operator defines them.
namespace refactor::kernel::roi_align {

struct Shapes {
    int64_t batch, channels, size[2], rois, bins[2];
};

Result<Shapes, Rejection> shapes_of(BindArgs const& args);

/// Why neither kernel takes these types, if so.
std::optional<Rejection> refuse_types(Request const& request);
/// The task of the reference.
movement::TaskResult bind_reference(RoiAlignInfo const& info, BindArgs const& args, Isa);

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

}  // namespace refactor::kernel::roi_align
