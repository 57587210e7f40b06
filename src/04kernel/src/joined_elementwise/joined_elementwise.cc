#include "kernel/ops/joined_elementwise.h"

#include "cuda/kernels.h"

namespace refactor::kernel {

std::string JoinedElementwiseInfo::attributes() const {
    return "axis=" + std::to_string(axis) + " pieces=" + std::to_string(pieces) + ' ' + program.attributes();
}

Candidates candidates(JoinedElementwiseInfo const& info, Request const& request) {
    Candidates result;
    result.add("joined_elementwise:nvidia:nvrtc", cuda::joined_elementwise_nvrtc(info, request));
    return result;
}

}  // namespace refactor::kernel
