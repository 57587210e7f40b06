#pragma once
#include "computation/graph.h"
#include "frontend/graph.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace refactor::frontend {

/// A model with inferred types and shapes, ready to be specialised and lowered. Movable, not thread-safe.
class Model {
public:
    /// Infers everything. Throws `InvalidModel`, or `Unsupported` if nothing is illegal, whose message lists all
    /// problems; `earlier` ones first.
    Model(Graph graph, SymbolTable symbols, Problems earlier = {});

    Graph const& graph() const { return graph_; }
    SymbolTable const& symbols() const { return symbols_; }
    /// Inputs and outputs in order, as inferred; the shape of an input is missing if its rank is unknown.
    std::vector<Tensor> inputs() const;
    std::vector<Tensor> outputs() const;
    /// Names of the symbols that inputs use and that have no value yet.
    std::vector<std::string> variables() const;
    /// Names of inputs whose rank is unknown: `set_input_shape` them before `lower`.
    std::vector<std::string> unranked_inputs() const;

    /// Gives a symbol of the inputs a value and infers again. Throws `InvalidInput` for an unknown name or negative
    /// value, `InvalidModel` if the model contradicts it; the model is unchanged then.
    void substitute(std::string_view symbol, int64_t value);
    /// Declares (or overrides) the sizes of an input and infers again. Throws as `substitute` does.
    void set_input_shape(std::string_view input, Shape shape);

    /// The computation graph, without nodes that do not lead to an output. Throws `Unsupported` listing every node that
    /// cannot be lowered, `InvalidInput` if the rank of an input is unknown.
    computation::Model lower() const;

private:
    Graph graph_;
    SymbolTable symbols_;
    std::vector<Tensor> tensors_;  ///< by edge

    std::vector<Tensor> inputs_of_graph() const;
    /// `refined`: what was constant before still is.
    void infer_again(std::vector<Tensor> inputs, bool refined);
};

}  // namespace refactor::frontend
