#pragma once
#include "pass.h"

namespace refactor::computation {

/// On a GPU: a concatenation that one elementwise node reads, and nobody else, becomes part of it (JoinedElementwise),
/// which saves a launch and writing and reading the whole. The node must have the shape of the concatenation, of which
/// all pieces are of one type; tensors that a user keeps stay. Needs the final types and layouts, so it runs behind
/// `lower_precision` and `channels_last_convolutions`.
int fuse_concats(Model&, PassContext const&);

}  // namespace refactor::computation
