#pragma once
#include "passes/attention_heads.h"
#include "passes/expression.h"

namespace refactor::computation {

/// Scores [B, N, H, S, T] of matrices [B · N, H, S, T], to which a mask of each of N windows was added.
bool are_windows(Shape const& scores, Shape const& matrices);

/// The mask of such scores as one of the matrices: of all of them, of N that repeat, or one for all. Null: it is
/// another one for each of B alone.
EdgePtr mask_of_windows(Heads const&, EdgePtr mask, Shape const& scores, bool& repeats);

/// Takes masks of the windows of one image, [N, …], instead of those of all images, [B · N, …], that a Reshape made of
/// an Expand of [1, N, …] to [B, N, …], if all inputs of the mask that differ from window to window are such; whether
/// it did.
bool take_one_image(Heads const&, Expression& mask);

}  // namespace refactor::computation
