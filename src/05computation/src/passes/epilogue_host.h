#pragma once
#include "computation/graph.h"
#include "kernel/epilogue.h"

namespace refactor::computation {

/// The epilogue of a Conv, ConvTranspose or MatMul node; nothing for other nodes.
std::optional<kernel::Epilogue> epilogue_of(NodePtr node);
/// Replaces it, keeping everything else. The caller keeps the inputs in step (bias, then residual, at the end).
void set_epilogue(NodePtr node, kernel::Epilogue const& epilogue);

}  // namespace refactor::computation
