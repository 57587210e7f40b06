#include "cumsum/cumsum.h"

namespace refactor::kernel {

std::string CumSumInfo::attributes() const {
    return "axis=" + std::to_string(axis) + (exclusive ? ",exclusive" : "") + (reverse ? ",reverse" : "") +
           (product ? ",product" : "");
}

Candidates candidates(CumSumInfo const& info, Request const& request) {
    Candidates answer;
#define RG_KERNEL(ID, FACTORY) answer.add(ID, FACTORY(info, request));
#include "cumsum/cumsum_kernels.inc"
#undef RG_KERNEL
    return answer;
}

}  // namespace refactor::kernel
