#pragma once
#include "pass.h"

namespace refactor::computation {

/// On a GPU attention of few queries, or of a number that is not known, becomes one node with the two Concats that join
/// its past and new keys and values: a step of decoding then reads its caches once, in one launch. What others read of
/// the joined tensors becomes outputs of that node; where a Concat writes two types, attention must be the only reader
/// of one of them. Behind `view_operands` and `lower_precision`, which give both their last form.
int join_caches(Model&, PassContext const&);

}  // namespace refactor::computation
