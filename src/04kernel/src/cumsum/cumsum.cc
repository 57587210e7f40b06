#include "cumsum/cumsum.h"

#include "cuda/movement_kernels.h"

namespace refactor::kernel {

std::string CumSumInfo::attributes() const {
    return "axis=" + std::to_string(axis) + (exclusive ? ",exclusive" : "") + (reverse ? ",reverse" : "") +
           (product ? ",product" : "");
}

Candidates candidates(CumSumInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("cumsum:nvidia:nvrtc", cuda::cumsum_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "cumsum/cumsum_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
