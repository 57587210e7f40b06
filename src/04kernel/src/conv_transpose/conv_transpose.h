#pragma once
#include "conv/conv.h"

namespace refactor::kernel {

#define RG_CONV_TRANSPOSE_KERNEL(FACTORY, ID) KernelResult FACTORY(ConvTransposeInfo const&, Request const&);
#include "conv_transpose/conv_transpose_kernels.inc"
#undef RG_CONV_TRANSPOSE_KERNEL

}  // namespace refactor::kernel
