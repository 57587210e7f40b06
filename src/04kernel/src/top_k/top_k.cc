#include "top_k/top_k.h"

#include "cuda/movement_kernels.h"

namespace refactor::kernel {

std::string TopKInfo::attributes() const {
    return "axis=" + std::to_string(axis) + (largest ? ",largest" : ",smallest") + (sorted ? ",sorted" : "");
}

Candidates candidates(TopKInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("top_k:nvidia:nvrtc", cuda::top_k_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "top_k/top_k_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
