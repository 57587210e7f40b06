#include "reorder/reorder.h"

namespace refactor::kernel {

std::string reorder_mismatch(ReorderInfo const& info, Request const& request) {
    if (info.channels_last) return "is for channels in front";
    if (request.device != "cpu") return "runs on the CPU, not on " + std::string(request.device);
    if (request.inputs.size() != 1 || request.outputs.size() != 1)
        return "expects 1 input and 1 output, got " + std::to_string(request.inputs.size()) + " and " +
               std::to_string(request.outputs.size());
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (x.dims.size() < 2) return "expects X of rank 2 or more, got " + std::to_string(x.dims.size());
    if (y.dtype != x.dtype)
        return "expects Y to be " + std::string(name_of(x.dtype)) + ", got " + std::string(name_of(y.dtype));
    return {};
}

Candidates candidates(ReorderInfo const& info, Request const& request) {
    Candidates result;
#define RG_REORDER_KERNEL(FACTORY, ID) result.add(ID, FACTORY(info, request));
#include "reorder/reorder_kernels.inc"
#undef RG_REORDER_KERNEL
    return result;
}

}  // namespace refactor::kernel
