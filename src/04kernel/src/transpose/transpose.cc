#include "transpose/transpose.h"

#include "cuda/movement_kernels.h"
#include "movement/strided_copy.h"

namespace refactor::kernel {

using namespace movement;

std::string TransposeInfo::attributes() const { return "perm=" + to_string(perm); }

Candidates candidates(TransposeInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("transpose:nvidia:nvrtc", cuda::transpose_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "transpose/transpose_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

/// A permutation names every axis once.
std::optional<Rejection> refuse_perm(TransposeInfo const& info, Request const& request) {
    if (auto no = refuse(request)) return no;
    uint64_t seen = 0;
    for (auto axis : info.perm) {
        if (axis < 0 || axis >= static_cast<int64_t>(info.perm.size()) || (seen >> axis & 1))
            return Rejection{"perm " + movement::to_string(info.perm) + " is not a permutation"};
        seen |= uint64_t{1} << axis;
    }
    return std::nullopt;
}

std::optional<Rejection> refuse_rank(TransposeInfo const& info, BindArgs const& args) {
    auto rank = args.inputs[0]->dims.size();
    if (rank == info.perm.size() && args.outputs[0]->dims.size() == rank) return std::nullopt;
    return Rejection{"perm " + movement::to_string(info.perm) + " for an input of rank " + std::to_string(rank)};
}

TaskResult bind_strided(TransposeInfo const& info, BindArgs const& args, Isa isa) {
    if (auto no = refuse_rank(info, args)) return Err{*no};
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto strides = strides_of(x.dims);
    Dims permuted;
    for (auto axis : info.perm) permuted.push_back(strides[axis]);
    StridedCopy copy(y.dims, permuted, strides_of(y.dims), element_bytes(x.dtype), isa);
    return make_task([copy](void* const* a, runtime::RunContext const& c) { copy.run(a[0], a[1], c.pool); });
}

TaskResult bind_reference(TransposeInfo const& info, BindArgs const& args, Isa) {
    if (auto no = refuse_rank(info, args)) return Err{*no};
    auto strides = strides_of(args.inputs[0]->dims);
    auto bytes = element_bytes(args.inputs[0]->dtype);
    return make_task([=, perm = info.perm, dims = args.outputs[0]->dims](void* const* a, runtime::RunContext const&) {
        for_each_coordinate(dims, [&](Dims const& at, int64_t index) {
            int64_t from = 0;
            for (size_t i = 0; i < perm.size(); ++i) from += at[i] * strides[perm[i]];
            std::memcpy(static_cast<char*>(a[1]) + index * bytes, static_cast<char*>(a[0]) + from * bytes, bytes);
        });
    });
}

}  // namespace

KernelResult transpose_strided(TransposeInfo const& info, Request const& request) {
    if (auto no = refuse_perm(info, request)) return Err{*no};
    if (info.perm.size() > StridedCopy::kMaxRank)
        return Err{Rejection{"rank " + std::to_string(info.perm.size()) + ", at most 18"}};
    return make_kernel(info, "transpose", "strided", request, bind_strided);
}

KernelResult transpose_reference(TransposeInfo const& info, Request const& request) {
    if (auto no = refuse_perm(info, request)) return Err{*no};
    return make_kernel(info, "transpose", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
