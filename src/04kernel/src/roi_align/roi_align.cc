#include "roi_align/roi_align.h"

#include "cuda/movement_kernels.h"
#include "roi_align/roi_regions.h"

namespace refactor::kernel {

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

namespace roi_align {

Result<Shapes, Rejection> shapes_of(BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &rois = args.inputs[1]->dims, &batch = args.inputs[2]->dims;
    auto const& y = args.outputs[0]->dims;
    bool fits = x.size() == 4 && rois.size() == 2 && rois[1] == 4 && batch.size() == 1 && batch[0] == rois[0] &&
                y.size() == 4 && y[0] == rois[0] && y[1] == x[1] && (x[2] * x[3] > 0 || args.outputs[0]->count() == 0);
    if (fits) return Shapes{x[0], x[1], {x[2], x[3]}, rois[0], {y[2], y[3]}};
    return Err{Rejection{"input " + movement::to_string(x) + ", regions " + movement::to_string(rois) +
                         ", batch indices " + movement::to_string(batch) + ", output " + movement::to_string(y)}};
}

std::optional<Rejection> refuse_types(Request const& request) {
    if (auto no = movement::refuse(request, {.min_inputs = 3, .max_inputs = 3})) return no;
    if (is_any_float(request.inputs[0].dtype) && request.inputs[1].dtype == request.inputs[0].dtype &&
        request.inputs[2].dtype == DataType::I64)
        return std::nullopt;
    return Rejection{"expects floats, regions of the same type and i64 batch indices"};
}

movement::TaskResult bind_reference(RoiAlignInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(args);
    if (!shapes) return Err{shapes.error()};
    return movement::make_task(
        [info, s = *shapes, type = args.inputs[0]->dtype](void* const* a, runtime::RunContext const& context) {
            visit_float(type, [&](auto tag) {
                using T = typename decltype(tag)::type;
                each_region<T>(info, s, a, context.pool, 32, [&](auto const* axes, T const* x, T* y, int64_t channels) {
                    run_region(info, s, axes, x, y, channels);
                });
            });
        });
}

}  // namespace roi_align

movement::KernelResult roi_align_reference(RoiAlignInfo const& info, Request const& request) {
    if (auto no = roi_align::refuse_types(request)) return Err{*no};
    return movement::make_kernel(info, "roi_align", "reference", request, roi_align::bind_reference);
}

}  // namespace refactor::kernel
