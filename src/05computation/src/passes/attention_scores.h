#pragma once
#include "kernel/ops/matmul.h"
#include "passes/expression.h"

#include <optional>

namespace refactor::computation {

/// `softcap · tanh(scale · product / softcap) + mask`, or `scale · product + mask` without a softcap, which is what
/// softmax reads in an attention.
struct Scores {
    EdgePtr product = nullptr;  ///< of a MatMul
    Shape shape;                ///< that the mask broadcasts to: of the product, or of a Reshape of it
    float scale = 1, softcap = 0;
    Expression mask;  ///< without outputs: none
    kernel::HiddenKeys hidden = kernel::HiddenKeys::Added;

    /// The edge of the mask: one that is there, or of a new node; null without a mask.
    EdgePtr mask_edge(Graph&, std::string const& name) const;
};

/// Takes apart what an Elementwise node makes of a product that nobody else reads: scalar factors, a tanh
/// between factors, what is added before and behind them, and `where` with a constant that no score reaches in the
/// place of some scores, which the mask then has there. Reshapes may stand on both sides of the
/// node. Empty if it is anything else. `edge` may be the product itself.
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
