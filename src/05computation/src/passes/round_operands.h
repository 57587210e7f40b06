#pragma once
#include "pass.h"

namespace refactor::computation {

/// With `CompileOptions::compute` BF16 on a CPU that multiplies pairs of bf16: products, convolutions, attention
/// and recurrent layers of f32 may round their operands, states of layers among them, to that type. Sums, and all
/// tensors between nodes, stay f32, so that nothing is rounded twice and no other operator needs another kernel. F16
/// rounds nothing there, for no CPU kernel multiplies it faster than f32. Never touched: nodes that
/// `PassContext::keep_f32` names. The notes tell what rounds, and why nothing does. After everything that fuses, before
/// `select_layouts`.
int round_operands(Model&, PassContext const&);

}  // namespace refactor::computation
