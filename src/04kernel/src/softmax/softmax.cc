#include "softmax/softmax.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

std::string SoftmaxInfo::attributes() const {
    return "axis=" + std::to_string(axis) + ",axes=" + std::to_string(axes) + (log ? ",log" : "") +
           (nan_to_zero ? ",nan_to_zero" : "");
}

Candidates candidates(SoftmaxInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("softmax:nvidia:nvrtc", cuda::softmax_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "softmax/softmax_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
