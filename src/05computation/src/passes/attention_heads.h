#pragma once
#include "passes/edges.h"

namespace refactor::computation {

/// Operands of an attention of `batch` × `heads`, of which matrices [batch · heads, …] are the same.
class Heads {
    Graph& graph_;
    DimExpr batch_, heads_;

    bool are_merged(EdgePtr) const;

public:
    /// Those of scores, or of what made the matrices of queries.
    Heads(Graph&, Shape const& scores, EdgePtr queries);
    /// Those of `keys`: one for all queries, if a product broadcasts it, or the same.
    Heads of_keys(EdgePtr keys) const;
    bool fit(EdgePtr) const;
    Shape shape_of(Shape const& matrices) const;
    /// An edge that fits, as four axes.
    EdgePtr apart(EdgePtr) const;
    /// What a Reshape tells batches and heads apart of, or `edge`.
    EdgePtr before_apart(EdgePtr) const;
    EdgePtr reshaped(EdgePtr, Shape const&) const;
};

}  // namespace refactor::computation
