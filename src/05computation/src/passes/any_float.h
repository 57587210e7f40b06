#pragma once
#include "pass.h"

#include <functional>

namespace refactor::computation {

/// Whether the operator's kernels may take floats of one type in place of another: they keep sums in f32 or more, and
/// nothing in the operator names a type. What is not (random numbers, trees, transforms with sums of their own) stays
/// as the model has it.
bool takes_any_float(Operator const&);
/// Whether it only moves elements: of floats of fewer bits it moves fewer bytes.
bool only_moves(Operator const&);
/// Whether a kernel on `device` computes the node with those of its operands for which `changes` holds in `type`.
bool accepts_as(NodePtr node, DataType type, std::function<bool(EdgePtr)> const& changes, PassContext const& context,
                mem_manager::Device* place);
/// A node that casts `edge`, named after it.
EdgePtr insert_cast(Graph&, EdgePtr edge, DataType type);

}  // namespace refactor::computation
