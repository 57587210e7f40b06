#pragma once
#include "frontend/graph.h"

#include <cstdint>
#include <memory>
#include <span>
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
    Inference const& inference() const { return inference_; }
    /// Inputs and outputs in order, as inferred; the shape is missing where the rank is unknown.
    std::vector<Tensor> inputs() const;
    std::vector<Tensor> outputs() const;
    /// Names of the symbols that inputs use and that have no value yet.
    std::vector<std::string> variables() const;
    /// The nodes, in sub-graphs too, that these names stand for: a node that was replaced by the body of a function
    /// for all of that (`name#1/...`), `name/1`, `name/2` … for the further operators that one is lowered to. Names
    /// that stand for nothing go to `unknown`.
    std::vector<std::string> nodes_of(std::span<std::string const> names, std::vector<std::string>& unknown) const;
    /// Gives a symbol of the inputs a value and infers again. Throws `InvalidInput` for an unknown name or negative
    /// value, `InvalidModel` if the model contradicts it; the model is unchanged then.
    void substitute(std::string_view symbol, int64_t value);

private:
    Graph graph_;
    SymbolTable symbols_;
    Inference inference_;
};

}  // namespace refactor::frontend
