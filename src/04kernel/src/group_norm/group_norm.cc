#include "group_norm/group_norm.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

std::string GroupNormInfo::attributes() const {
    return "groups=" + std::to_string(groups) + ",epsilon=" + exact_text(epsilon);
}

Candidates candidates(GroupNormInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("group_norm:nvidia:nvrtc", cuda::group_norm_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "group_norm/group_norm_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
