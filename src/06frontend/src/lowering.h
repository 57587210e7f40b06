#pragma once
#include "frontend/graph.h"
#include "frontend/operator.h"

namespace refactor::frontend {

/// "node \"conv1\" (Conv, opset 17; inputs f32[1, 3, 8, 8], f32[4, 3, 3, 3])".
std::string describe(Node const& node, std::span<Tensor const* const> inputs, SymbolTable const& symbols);

/// Computes the outputs of a node whose inputs are all constant. Leaves them as they are where that is impossible or
/// not worth it (results above `kFoldLimit` bytes that are larger than the inputs).
void fold(Node const& node, std::span<Tensor const* const> inputs, std::span<Tensor> outputs,
          SymbolTable const& symbols);
inline constexpr size_t kFoldLimit = size_t{16} << 20;

/// Lowers a graph whose edges have been inferred as `tensors`; nodes that do not lead to an output are left out. What
/// cannot be lowered goes to `problems`; the result is then incomplete.
computation::Graph lower(Graph const& graph, std::span<Tensor const> tensors, SymbolTable const& symbols,
                         Problems& problems);

}  // namespace refactor::frontend
