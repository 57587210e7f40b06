#include "expand/expand.h"

#include "cuda/movement_kernels.h"
#include "movement/strided_copy.h"

namespace refactor::kernel {

using namespace movement;

std::string ExpandInfo::attributes() const { return tile ? "tile" : ""; }

Candidates candidates(ExpandInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("expand:nvidia:nvrtc", cuda::expand_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "expand/expand_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

/// Axis i of the input against the aligned axis of the output: the output repeats it `out / in` times.
Result<Dims, Rejection> aligned_input(ExpandInfo const& info, BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    Dims aligned;
    bool fits = x.size() <= y.size();
    for (size_t i = 0; fits && i < y.size(); ++i) {
        auto lead = y.size() - x.size();
        aligned.push_back(i < lead ? 1 : x[i - lead]);
        auto in = aligned.back(), out = y[i];
        fits = info.tile ? out == 0 || (in > 0 && out % in == 0) : in == out || in == 1;
    }
    if (!fits)
        return Err{Rejection{"input " + to_string(x) + " cannot be " + (info.tile ? "repeated" : "broadcast") + " to " +
                             to_string(y)}};
    return aligned;
}

TaskResult bind_strided(ExpandInfo const& info, BindArgs const& args, Isa isa) {
    auto aligned = aligned_input(info, args);
    if (!aligned) return Err{aligned.error()};
    auto const& y = *args.outputs[0];
    auto in = strides_of(*aligned), out = strides_of(y.dims);
    Dims sizes, from, to;
    for (size_t i = 0; i < y.dims.size() && y.count() > 0; ++i) {
        auto size = (*aligned)[i], repeats = y.dims[i] / size;
        if (repeats > 1) sizes.push_back(repeats), from.push_back(0), to.push_back(out[i] * size);
        if (size > 1) sizes.push_back(size), from.push_back(in[i]), to.push_back(out[i]);
    }
    if (sizes.size() > StridedCopy::kMaxRank)
        return Err{Rejection{std::to_string(sizes.size()) + " axes to repeat, at most 18"}};
    if (y.count() == 0) sizes.push_back(0), from.push_back(0), to.push_back(0);
    StridedCopy copy(sizes, from, to, element_bytes(y.dtype), isa);
    return make_task([copy](void* const* a, runtime::RunContext const& c) { copy.run(a[0], a[1], c.pool); });
}

TaskResult bind_reference(ExpandInfo const& info, BindArgs const& args, Isa) {
    auto aligned = aligned_input(info, args);
    if (!aligned) return Err{aligned.error()};
    auto bytes = element_bytes(args.outputs[0]->dtype);
    return make_task([=, in = *aligned, strides = strides_of(*aligned), dims = args.outputs[0]->dims](
                         void* const* a, runtime::RunContext const&) {
        for_each_coordinate(dims, [&](Dims const& at, int64_t index) {
            int64_t from = 0;
            for (size_t i = 0; i < at.size(); ++i) from += at[i] % in[i] * strides[i];
            std::memcpy(static_cast<char*>(a[1]) + index * bytes, static_cast<char*>(a[0]) + from * bytes, bytes);
        });
    });
}

}  // namespace

KernelResult expand_strided(ExpandInfo const& info, Request const& request) {
    if (auto no = refuse(request)) return Err{*no};
    return make_kernel(info, "expand", "strided", request, bind_strided);
}

KernelResult expand_reference(ExpandInfo const& info, Request const& request) {
    if (auto no = refuse(request)) return Err{*no};
    return make_kernel(info, "expand", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
