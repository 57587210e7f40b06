#pragma once
#include "computation/compile.h"

namespace refactor::computation {

/// One side of a conditional: a graph whose inputs are inputs of the conditional node, by number.
struct Branch {
    Model model;
    std::vector<uint32_t> captures;  ///< for each graph input: which input of the node it is (0 is the condition)
};

/// Runs one of two graphs. Input 0 is the condition (bool, one element), the others are values that the branches use;
/// outputs have the same type and the same symbolic shape on both sides. The branches' symbols are those of the graph
/// around, by number.
///
/// Each branch is compiled to a Program of its own; its plan lives in the workspace of the step. CPU only.
class If final : public Operator {
    struct Frozen;
    std::shared_ptr<Frozen const> branches_;

    If(std::shared_ptr<Frozen const> branches, std::vector<DimExpr> symbols);

public:
    static std::shared_ptr<Operator const> make(Branch then_branch, Branch else_branch);

    std::string_view type() const override { return "If"; }
    /// Never equal for two nodes: branches are not compared.
    std::string attributes() const override;
    /// Whether a node of either branch is.
    bool is_random() const override;
    kernel::Candidates candidates(kernel::Request const&) const override;
    /// Both branches, as they were before any pass.
    void write(GraphWriter&) const override;
    static std::shared_ptr<Operator const> read(GraphReader&);
};

}  // namespace refactor::computation
