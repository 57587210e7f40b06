#pragma once
#include "pass.h"

namespace refactor::computation {

/// On a CPU, where convolutions may round to bf16: tensors in blocks of 16 channels of f32 become bf16 in blocks of 32
/// (`Layout::Blocked32`) where every node around has a kernel for that and no convolution is faster without. What is
/// computed stays f32; each result is rounded once, when it is stored. Tensors of nodes in `keep_f32` stay as they are.
/// Must run behind `select_layouts` and what moves its reorders.
int narrow_blocks(Model&, PassContext const&);

}  // namespace refactor::computation
