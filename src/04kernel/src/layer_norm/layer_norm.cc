#include "layer_norm/layer_norm.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

std::string LayerNormInfo::attributes() const {
    return "axis=" + std::to_string(axis) + ",epsilon=" + exact_text(epsilon) + (rms ? ",rms" : "") +
           (has_bias ? ",bias" : "") + (residual ? ",residual" : "");
}

Candidates candidates(LayerNormInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("layer_norm:nvidia:nvrtc", cuda::layer_norm_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "layer_norm/layer_norm_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
