#include "conv_transpose/conv_transpose.h"

namespace refactor::kernel {

std::string ConvTransposeInfo::attributes() const { return ConvInfo{window, group, epilogue}.attributes(); }

Candidates candidates(ConvTransposeInfo const& info, Request const& request) {
    Candidates result;
#define RG_CONV_TRANSPOSE_KERNEL(FACTORY, ID) result.add(ID, FACTORY(info, request));
#include "conv_transpose/conv_transpose_kernels.inc"
#undef RG_CONV_TRANSPOSE_KERNEL
    return result;
}

}  // namespace refactor::kernel
