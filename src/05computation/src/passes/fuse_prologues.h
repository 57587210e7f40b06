#pragma once
#include "pass.h"

namespace refactor::computation {

/// On a GPU, a normalisation of few rows, or of a number of rows that is not known, becomes part of the products by
/// constants that read it, if nothing else does: a launch less. Behind `turn_weights` and the folding of what it
/// turned.
int fuse_prologues(Model&, PassContext const&);

}  // namespace refactor::computation
