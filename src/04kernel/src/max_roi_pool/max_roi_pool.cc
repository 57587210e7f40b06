#include "max_roi_pool/max_roi_pool.h"

#include "common/error.h"
#include "cuda/movement_kernels.h"
#include "movement/indices.h"
#include "movement/ranges.h"
#include "reduce/scalar_type.h"

#include <cmath>

namespace refactor::kernel {

using movement::make_task;
using movement::TaskResult;

std::string MaxRoiPoolInfo::attributes() const { return "scale=" + exact_text(spatial_scale); }

Candidates candidates(MaxRoiPoolInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("max_roi_pool:nvidia:nvrtc", cuda::max_roi_pool_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "max_roi_pool/max_roi_pool_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

struct Shapes {
    int64_t batch, channels, size[2], rois, bins[2];
};

Result<Shapes, Rejection> shapes_of(BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &rois = args.inputs[1]->dims, &y = args.outputs[0]->dims;
    bool fits = x.size() == 4 && rois.size() == 2 && rois[1] == 5 && y.size() == 4 && y[0] == rois[0] && y[1] == x[1];
    if (fits) return Shapes{x[0], x[1], {x[2], x[3]}, rois[0], {y[2], y[3]}};
    return Err{Rejection{"input " + movement::to_string(x) + ", regions " + movement::to_string(rois) + ", output " +
                         movement::to_string(y)}};
}

/// Elements [begin, end) of one axis that a bin covers.
struct Range {
    int64_t begin, end;
};

/// One axis of a region, rounded to whole elements. Source: Fast R-CNN (arXiv 1504.08083).
struct RoiAxis {
    double start, bin;
    int64_t size;

    RoiAxis(double first, double last, float scale, int64_t bins, int64_t elements) : size(elements) {
        start = std::round(static_cast<float>(first) * scale);
        auto end = std::round(static_cast<float>(last) * scale);
        bin = std::max(static_cast<double>(end) - start + 1, 1.) / static_cast<double>(bins);
    }
    int64_t clamped(double at) const {
        // A comparison with NaN is false.
        return at >= 0 ? static_cast<int64_t>(std::min(at, static_cast<double>(size))) : 0;
    }
    Range range(int64_t i) const {
        return {clamped(std::floor(static_cast<double>(i) * bin) + start),
                clamped(std::ceil(static_cast<double>(i + 1) * bin) + start)};
    }
};

template <class T>
void pool(RoiAxis const (&axes)[2], int64_t const (&bins)[2], T const* x, int64_t width, T* y) {
    for (int64_t i = 0; i < bins[0]; ++i)
        for (int64_t j = 0; j < bins[1]; ++j) {
            auto rows = axes[0].range(i), columns = axes[1].range(j);
            T const* best = nullptr;
            for (auto r = rows.begin; r < rows.end; ++r)
                for (auto c = columns.begin; c < columns.end; ++c) {
                    auto* value = x + r * width + c;
                    if (!best || !(widen(*value) <= widen(*best))) best = value;
                }
            y[i * bins[1] + j] = best ? *best : T{};
        }
}

template <class T>
void run(MaxRoiPoolInfo const& info, Shapes const& s, void* const* a, ThreadPool& threads) {
    auto *x = static_cast<T const*>(a[0]), *rois = static_cast<T const*>(a[1]);
    auto* y = static_cast<T*>(a[2]);
    auto plane = s.size[0] * s.size[1], bins = s.bins[0] * s.bins[1];
    movement::for_ranges(
        threads, s.rois * s.channels, 2. * static_cast<double>(plane), [&](int64_t begin, int64_t end) {
            for (auto item = begin; item < end; ++item) {
                auto r = item / s.channels, c = item % s.channels;
                auto field = [&](int64_t i) { return static_cast<double>(widen(rois[5 * r + i])); };
                auto n = field(0);
                if (!(n >= 0 && n < static_cast<double>(s.batch)))
                    movement::throw_index("MaxRoiPool", std::abs(n) < 1e18 ? static_cast<int64_t>(n) : -1, r, 0,
                                          s.batch);
                RoiAxis axes[]{{field(2), field(4), info.spatial_scale, s.bins[0], s.size[0]},
                               {field(1), field(3), info.spatial_scale, s.bins[1], s.size[1]}};
                pool(axes, s.bins, x + (static_cast<int64_t>(n) * s.channels + c) * plane, s.size[1], y + item * bins);
            }
        });
}

TaskResult bind_reference(MaxRoiPoolInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(args);
    if (!shapes) return Err{shapes.error()};
    return make_task(
        [info, s = *shapes, type = args.inputs[0]->dtype](void* const* a, runtime::RunContext const& context) {
            visit_float(type, [&](auto tag) { run<typename decltype(tag)::type>(info, s, a, context.pool); });
        });
}

}  // namespace

movement::KernelResult max_roi_pool_reference(MaxRoiPoolInfo const& info, Request const& request) {
    if (auto no = movement::refuse(request, {.min_inputs = 2, .max_inputs = 2})) return Err{*no};
    if (!is_any_float(request.inputs[0].dtype) || request.inputs[1].dtype != request.inputs[0].dtype)
        return Err{Rejection{"expects floats and regions of the same type"}};
    return movement::make_kernel(info, "max_roi_pool", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
