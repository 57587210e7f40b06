#pragma once
#include "kernel/ops/matmul.h"
#include "passes/expression.h"

#include <optional>

namespace refactor::computation {

/// `softcap · tanh(scale · product / softcap) + mask`, or `scale · product + mask` without a softcap, which is what
/// softmax reads in an attention. Rows of the product may have factors of their own, as heads of cosine attention do.
struct Scores {
    EdgePtr product = nullptr;  ///< of a MatMul
    Shape shape;                ///< that the mask broadcasts to: of the product, or of a Reshape of it
    float scale = 1, softcap = 0;
    Expression mask, factors;  ///< without outputs: none
    kernel::HiddenKeys hidden = kernel::HiddenKeys::Added;

    /// The edge of the mask: one that is there, or of a new node; null without a mask.
    EdgePtr mask_edge(Graph& graph, std::string const& name) const { return edge_of(mask, graph, name); }
    /// Whether `queries`, [B, H, S, D], of which the product [B, H, S, T] is made can have the factors instead.
    bool are_factors_of(EdgePtr queries) const;
    /// `queries` times the factors, in the node that made them if it is Elementwise.
    EdgePtr multiplied(EdgePtr queries, Graph& graph) const;

private:
    EdgePtr edge_of(Expression const&, Graph&, std::string const& name) const;
};

/// Takes apart what an Elementwise node makes of a product that nobody else reads: factors, a tanh between scalar ones,
/// what is added before and behind them, and `where` with a constant that no score reaches in the place of some scores,
/// which the mask then has there. Reshapes may stand on both sides of the node. Empty if it is anything else. `edge`
/// may be the product itself.
std::optional<Scores> scores_of(EdgePtr edge);

/// The shapes are the same, but for a last axis of `masked` that may be what a mask broadcasts the keys of `product`
/// to.
bool is_but_for_keys(Shape const& masked, Shape const& product);
/// `edge` is `factor` times what is returned, through an Elementwise node that nobody else reads and that only
/// multiplies by a scalar.
EdgePtr strip_scale(EdgePtr edge, float& factor);
/// What Reshapes that nobody else reads made `edge` of, or `edge`.
EdgePtr before_reshapes(EdgePtr edge);

}  // namespace refactor::computation
