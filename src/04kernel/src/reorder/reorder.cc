#include "reorder/reorder.h"

namespace refactor::kernel {

std::string reorder_mismatch(ReorderInfo const& info, Request const& request, bool rounds) {
    if (info.channels_last) return "is for channels in front";
    if (request.device != "cpu") return "runs on the CPU, not on " + std::string(request.device);
    if (request.inputs.size() != 1 || request.outputs.size() != 1)
        return "expects 1 input and 1 output, got " + std::to_string(request.inputs.size()) + " and " +
               std::to_string(request.outputs.size());
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (x.dims.size() < 2) return "expects X of rank 2 or more, got " + std::to_string(x.dims.size());
    auto is_either = [](Operand const& operand) {
        return operand.dtype == DataType::F32 || operand.dtype == DataType::BF16;
    };
    if (y.dtype != x.dtype && !(rounds && is_either(x) && is_either(y)))
        return "expects Y to be " + std::string(name_of(x.dtype)) + ", got " + std::string(name_of(y.dtype));
    return {};
}

std::string rounding_mismatch(Request const& request) {
    if (auto reason = reorder_mismatch({}, request, true); !reason.empty()) return reason;
    if (request.isa < Isa::Avx512Bf16) return "needs avx512bf16";
    auto const &x = request.inputs[0], &y = request.outputs[0];
    auto const &plain = x.layout == Layout::Plain ? x : y, &blocked = x.layout == Layout::Plain ? y : x;
    bool fits = plain.layout == Layout::Plain && plain.dtype == DataType::F32 && blocked.layout == Layout::Blocked32 &&
                blocked.dtype == DataType::BF16;
    return fits ? "" : "is for Plain f32 and blocks of 32 channels of bf16";
}

Candidates candidates(ReorderInfo const& info, Request const& request) {
    Candidates result;
#define RG_REORDER_KERNEL(FACTORY, ID) result.add(ID, FACTORY(info, request));
#include "reorder/reorder_kernels.inc"
#undef RG_REORDER_KERNEL
    return result;
}

}  // namespace refactor::kernel
