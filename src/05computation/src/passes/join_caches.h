#pragma once
#include "pass.h"

namespace refactor::computation {

/// Attention of few queries, or of a number of them that is not known, whose keys and values are each a Concat of two
/// caches along the positions, becomes one node with these (on a GPU): a step of decoding then reads its caches once,
/// in one launch. The joined tensors that others read become outputs of it, in one type; a second one of another type
/// is left out, where attention alone reads it. Behind `view_operands` and `lower_precision`, which give both their
/// last form.
int join_caches(Model&, PassContext const&);

}  // namespace refactor::computation
