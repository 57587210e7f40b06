#pragma once
#include "conv/conv.h"

namespace refactor::kernel {

/// A kernel for Plain operands that reorders them in its workspace around kernels for the blocked layout of `isa`,
/// which `find` lists for a request.
KernelResult reordered(std::string id, Epilogue const&, Request const&, Isa isa,
                       std::vector<std::unique_ptr<Kernel>> (*find)(void const* info, Request const&),
                       void const* info);

}  // namespace refactor::kernel
