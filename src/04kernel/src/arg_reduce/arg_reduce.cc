#include "arg_reduce/arg_reduce.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

std::string ArgReduceInfo::attributes() const {
    return std::string(min ? "min" : "max") + ",axis=" + std::to_string(axis) + (select_last_index ? ",last" : "");
}

Candidates candidates(ArgReduceInfo const& info, Request const& request) {
    Candidates answer;
    if (request.device != "cpu") {
        answer.add("arg_reduce:nvidia:nvrtc", cuda::arg_reduce_nvrtc(info, request));
        return answer;
    }
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "arg_reduce/arg_reduce_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
