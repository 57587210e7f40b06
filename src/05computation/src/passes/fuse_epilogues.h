#pragma once
#include "pass.h"

namespace refactor::computation {

/// Moves activations and residual additions from an Elementwise node into the epilogue of the convolution or product
/// that makes its operand, if nothing else reads that operand. An activation may also stand behind Transposes and
/// Reshapes of the operand, as where tokens of transformers are convolved. f32 only; what does not fit the epilogue
/// stays in the Elementwise node. Must run after recognise_activations and before select_layouts.
int fuse_epilogues(Model&, PassContext const&);

}  // namespace refactor::computation
