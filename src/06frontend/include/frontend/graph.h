#pragma once
#include "frontend/tensor.h"
#include "graph_topo/graph_topo.h"
#include "kernel/program.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace refactor::frontend {

class Operator;

struct Node {
    std::string name;
    std::shared_ptr<Operator const> op;
};

/// A graph as a framework describes it. `tensors[i]` belongs to edge `i`: inputs have their declared type and sizes,
/// sources are constants, all others only a name (and a declared type) before inference.
///
/// Sub-graphs see outer values through explicit inputs: the first `formal_inputs` global inputs are the sub-graph's
/// own, the rest captures.
struct Graph {
    graph_topo::GraphTopo topo;
    std::vector<Node> nodes;
    std::vector<Tensor> tensors;
    size_t formal_inputs = 0;
};

/// Everything found wrong with a model.
struct Problems {
    std::vector<std::string> invalid, unsupported;

    bool empty() const { return invalid.empty() && unsupported.empty(); }
    /// Sorts `error` in under its node; unknown variables are no problem of the node itself.
    void add(std::string_view node, InferError const& error);
    /// Throws `InvalidModel`, or `Unsupported` if nothing is illegal, listing all; does nothing if empty.
    void raise() const;
};

/// What is known about all edges of a graph.
struct Inference {
    std::vector<Tensor> tensors;  ///< by edge
    /// By node: nothing is known about its outputs before the content of some edge has been computed.
    std::vector<bool> deferred;
    std::vector<bool> procedures;  ///< by node: it runs as a procedure
    /// By node: what must hold of the sizes of a run.
    std::vector<std::vector<kernel::SizeCondition>> conditions;
    std::vector<graph_topo::EdgeIdx> needed;  ///< edges whose content was asked for in vain
    std::vector<graph_topo::EdgeIdx> sized;   ///< edges whose elements are symbols (`content_symbol`)
    std::vector<std::string> reasons;         ///< why nodes are deferred, for those that asked

    bool complete() const { return needed.empty() && reasons.empty(); }
};

/// Name of the symbol for an element of a tensor whose content only the run tells.
std::string content_symbol(Tensor const& tensor, int64_t element);

/// Makes types of some graph fit to be inputs of another one: sizes are numbers or symbols that are one size of an
/// input (others become such), and no input carries sizes except as a constant.
void close_inputs(std::vector<Tensor>& inputs, SymbolTable& symbols);

/// Types, shapes, values and constants of all edges for the given global inputs (type, shape, and, if known, content),
/// in one pass over the nodes. Nodes all of whose inputs are constant are computed, unless their results are large.
/// What is wrong goes to `problems`; edges behind it, and behind nodes that are deferred, stay without type. Constants
/// of `earlier`, the result for less specific inputs, are taken over.
Inference infer(Graph const& graph, std::vector<Tensor> inputs, SymbolTable& symbols, Problems& problems,
                std::span<Tensor const> earlier = {});

}  // namespace refactor::frontend
