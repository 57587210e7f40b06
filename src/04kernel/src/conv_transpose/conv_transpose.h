#pragma once
#include "conv/conv.h"
#include "conv/tile.h"

namespace refactor::kernel {

#define RG_CONV_TRANSPOSE_KERNEL(FACTORY, ID) KernelResult FACTORY(ConvTransposeInfo const&, Request const&);
#include "conv_transpose/conv_transpose_kernels.inc"
#undef RG_CONV_TRANSPOSE_KERNEL

/// Phases of numbers in three parts by these tiles, which need `Isa`.
KernelResult make_split_phases(ConvTransposeInfo const&, Request const&, Isa, TileIsa const&, std::string id);

}  // namespace refactor::kernel
