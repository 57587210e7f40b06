#include "global_pool/global_pool.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

std::string GlobalPoolInfo::attributes() const { return kind == PoolKind::Max ? "max" : "average"; }

std::string global_pool_mismatch(Request const& request, DataType result) {
    if (request.device != "cpu") return "runs on the CPU, not on " + std::string(request.device);
    if (request.inputs.size() != 1 || request.outputs.size() != 1)
        return "expects 1 input and 1 output, got " + std::to_string(request.inputs.size()) + " and " +
               std::to_string(request.outputs.size());
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (x.dims.size() < 2) return "expects X of rank 2 or more, got " + std::to_string(x.dims.size());
    auto wanted = result == DataType::Undefined ? x.dtype : result;
    if (y.dtype != wanted)
        return "expects Y to be " + std::string(name_of(wanted)) + ", got " + std::string(name_of(y.dtype));
    return {};
}

Candidates candidates(GlobalPoolInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("global_pool:nvidia:nvrtc", cuda::global_pool_nvrtc(info, request));
        return result;
    }
#define RG_GLOBAL_POOL_KERNEL(FACTORY, ID) result.add(ID, FACTORY(info, request));
#include "global_pool/global_pool_kernels.inc"
#undef RG_GLOBAL_POOL_KERNEL
    return result;
}

}  // namespace refactor::kernel
