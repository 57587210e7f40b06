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

/// Nodes of a graph that become one program, with the edges that cross its border.
struct Part {
    std::vector<bool> nodes;
    std::vector<bool> known;  ///< nodes that are not computed; where they carry sizes, what they expect is checked
    std::vector<graph_topo::EdgeIdx> inputs, outputs;  ///< an output may be listed twice
};

/// Lowers a part of a graph with what is known of its edges. What cannot be lowered goes to `problems`; the
/// result is then incomplete.
computation::Model lower_part(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                              Part const& part, Problems& problems);

/// The value of a constant: its memory or its literal.
runtime::Value value_of(Tensor const& constant);

}  // namespace refactor::frontend
