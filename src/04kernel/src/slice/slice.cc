#include "slice/slice.h"

#include "cuda/movement_kernels.h"
#include "movement/strided_copy.h"

namespace refactor::kernel {

using namespace movement;

std::string SliceInfo::attributes() const { return "steps=" + to_string(steps); }

Candidates candidates(SliceInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("slice:nvidia:nvrtc", cuda::slice_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "slice/slice_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

std::optional<Rejection> refuse_slice(SliceInfo const& info, Request const& request) {
    if (auto no = refuse(request)) return no;
    if (std::find(info.steps.begin(), info.steps.end(), 0) != info.steps.end())
        return Rejection{"steps " + movement::to_string(info.steps) + ", expected no zero"};
    if (info.steps.size() > StridedCopy::kMaxRank)
        return Rejection{"rank " + std::to_string(info.steps.size()) + ", at most 18"};
    return std::nullopt;
}

/// Where the slice begins and how it walks, in elements of the input.
struct Walk {
    int64_t begin = 0;
    Dims strides;
};

Result<Walk, Rejection> walk_of(SliceInfo const& info, BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    auto rank = x.size();
    if (y.size() != rank || info.steps.size() != rank || args.params.size() != rank)
        return Err{Rejection{"input " + to_string(x) + ", output " + to_string(y) + ", steps " + to_string(info.steps) +
                             ", starts " + to_string(args.params) + ": expected one of each for every axis"}};
    auto strides = strides_of(x);
    Walk walk;
    for (size_t i = 0; i < rank; ++i) {
        auto first = args.params[i], last = first + (y[i] - 1) * info.steps[i];
        if (args.outputs[0]->count() > 0 && (first < 0 || first >= x[i] || last < 0 || last >= x[i]))
            return Err{Rejection{"elements " + std::to_string(first) + " to " + std::to_string(last) + " of axis " +
                                 std::to_string(i) + " of size " + std::to_string(x[i])}};
        walk.begin += first * strides[i];
        walk.strides.push_back(strides[i] * info.steps[i]);
    }
    return walk;
}

TaskResult bind_strided(SliceInfo const& info, BindArgs const& args, Isa isa) {
    auto walk = walk_of(info, args);
    if (!walk) return Err{walk.error()};
    auto const& y = *args.outputs[0];
    auto bytes = element_bytes(y.dtype);
    StridedCopy copy(y.dims, walk->strides, strides_of(y.dims), bytes, isa);
    return make_task([copy, offset = walk->begin * bytes](void* const* a, runtime::RunContext const& c) {
        if (copy.bytes() > 0) copy.run(static_cast<char const*>(a[0]) + offset, a[1], c.pool);
    });
}

TaskResult bind_reference(SliceInfo const& info, BindArgs const& args, Isa) {
    auto walk = walk_of(info, args);
    if (!walk) return Err{walk.error()};
    auto bytes = element_bytes(args.outputs[0]->dtype);
    return make_task([=, w = *walk, dims = args.outputs[0]->dims](void* const* a, runtime::RunContext const&) {
        for_each_coordinate(dims, [&](Dims const& at, int64_t index) {
            auto from = w.begin;
            for (size_t i = 0; i < at.size(); ++i) from += at[i] * w.strides[i];
            std::memcpy(static_cast<char*>(a[1]) + index * bytes, static_cast<char*>(a[0]) + from * bytes, bytes);
        });
    });
}

}  // namespace

KernelResult slice_strided(SliceInfo const& info, Request const& request) {
    if (auto no = refuse_slice(info, request)) return Err{*no};
    return make_kernel(info, "slice", "strided", request, bind_strided);
}

KernelResult slice_reference(SliceInfo const& info, Request const& request) {
    if (auto no = refuse_slice(info, request)) return Err{*no};
    return make_kernel(info, "slice", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
