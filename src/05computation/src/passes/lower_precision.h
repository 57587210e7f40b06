#pragma once
#include "pass.h"

#include <set>

namespace refactor::computation {

/// The nodes that `PassContext::keep_f32` names. What a user names may have been fused: then it is the node that makes
/// the first tensor behind it which is left. `unknown` gets the names of which nothing is left.
std::set<NodePtr> nodes_kept_in_f32(Model&, PassContext const&, std::vector<std::string>* unknown = nullptr);

/// On a GPU (a CPU has `round_operands`): computes tensors of f32 in `CompileOptions::compute` (f16 or bf16): operands
/// of products, convolutions, attention, normalisations, pooling, reductions and movement become that type where a
/// kernel takes it, and elementwise programs read and store it, though they compute in f32. Sums are f32 in all these
/// kernels. Casts stand only where a tensor of one type meets a node of the other. Weights of fewer bits stay as they
/// are, and so do their scales. Never touched: inputs, outputs and kept tensors, nodes that `PassContext::keep_f32`
/// names. Runs after everything that fuses, so that what is computed together is rounded once, and after
/// `store_weights`, which rounds weights from f32.
int lower_precision(Model&, PassContext const&);

}  // namespace refactor::computation
