#pragma once
#include "frontend/compile.h"
#include "frontend/operator.h"

/// Procedures that run graphs. A body sees outer values through inputs behind its formal ones.
namespace refactor::frontend {

/// A graph, ready to be compiled: its types for certain inputs, with symbols of its own behind those of the outer
/// graph.
struct Body {
    Graph const* graph = nullptr;
    SymbolTable symbols;
    Inference inference;

    Tensor const& output(size_t i) const { return inference.tensors[graph->topo.global_outputs()[i]]; }
    size_t output_count() const { return graph->topo.global_outputs().size(); }
};

/// Infers a body for inputs that are known by type only; `role` names it in errors.
Inferred<Body> infer_body(Graph const& graph, std::vector<Tensor> inputs, SymbolTable const& outer,
                          std::string_view role);
/// Whether a body holds procedures or nodes that are deferred, so that it cannot be lowered into a program.
bool needs_procedure(Body const& body);

/// Types of values that a loop carries from one iteration to the next: sizes that change become symbols, ranks that
/// change unknown. `first_state`: number of the first such input and output of the body; `inputs` has the types before
/// the first iteration and receives those that hold for all.
Inferred<Body> infer_loop_body(Graph const& graph, std::vector<Tensor>& inputs, size_t first_state, size_t first_result,
                               size_t states, SymbolTable const& outer, std::string_view role);

/// Output `i` of a node for a value of a body: sizes that only the body knows become fresh.
Status set_from_body(InferContext& context, size_t i, Tensor const& value, SymbolTable const& outer);

/// Where the inputs of a body come from: inputs of the node, by number.
using Captures = std::vector<uint32_t>;

/// Input 0 of the node: the condition.
ProcedurePtr make_if(Compiled then_branch, Captures then_captures, Compiled else_branch, Captures else_captures);

/// ONNX Loop: inputs are the number of iterations, the condition (either may be omitted), the states, then captures;
/// inputs of the body the iteration, the condition, the states and captures; its outputs the condition, the states, and
/// values whose stacks are further outputs.
struct LoopInfo {
    size_t states = 0, stacks = 0;
    bool vector_iteration = false, vector_condition = false;  ///< the body wants [1], not a scalar
    std::vector<Dims> stack_dims;  ///< sizes of one element, for no iterations; -1 where unknown
    std::vector<DataType> stack_types;
};
ProcedurePtr make_loop(LoopInfo info, Compiled body, Captures captures);

/// ONNX Scan-9: inputs are the states and the sequences; inputs of the body the states and one element of each
/// sequence.
struct ScanInfo {
    size_t states = 0, sequences = 0, stacks = 0;
    std::vector<int64_t> axes, output_axes;
    std::vector<bool> reversed, outputs_reversed;
    std::vector<Dims> stack_dims;
    std::vector<DataType> stack_types;
    bool batched = false;
};
ProcedurePtr make_scan(ScanInfo info, Compiled body, Captures captures);

}  // namespace refactor::frontend
