#pragma once
#include "computation/graph.h"
#include "kernel/ops/elementwise.h"

namespace refactor::computation {

/// An Elementwise node taken apart for editing: its program and the edges that the program's Input instructions number.
struct Expression {
    std::vector<kernel::ExprInstruction> code;
    std::vector<uint16_t> outputs;
    std::vector<EdgePtr> inputs;

    /// `node` must be Elementwise.
    static Expression of(NodePtr node);
    /// Turns scalar constants into Constant instructions, merges equal inputs and instructions, and drops what no
    /// output needs.
    void normalize();
    /// How often each instruction is used by others and as output.
    std::vector<uint32_t> use_counts() const;
    /// Appends an instruction and returns its number.
    uint16_t append(kernel::ExprInstruction instruction);
    /// The value of a Constant instruction.
    std::optional<double> constant(uint16_t instruction) const;
    /// The edge of an Input instruction, else null.
    EdgePtr input(uint16_t instruction) const;
    /// Makes `node` compute this expression.
    void store(Graph& graph, NodePtr node) const;
};

/// The single scalar in a constant edge's data, if it is one element of a numeric type.
std::optional<kernel::ExprInstruction> scalar_constant(EdgePtr edge);
/// The program that computes `producer` and then `consumer`, which reads some of the producer's outputs.
Expression merge(NodePtr producer, NodePtr consumer);
/// A one-instruction program of the given type: `op(inputs…)`.
Expression make_expression(kernel::ExprOp op, DataType dtype, std::initializer_list<EdgePtr> inputs);

}  // namespace refactor::computation
