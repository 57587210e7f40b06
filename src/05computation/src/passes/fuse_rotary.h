#pragma once
#include "pass.h"

namespace refactor::computation {

/// On a GPU, rotary position embedding becomes one step. It is written as a concatenation of two Elementwise nodes over
/// the halves of a row, or over every second element of it, or as the sum of a row by cosines and of its halves,
/// exchanged and one of them negated, by sines. Behind `fuse_elementwise` and `lower_precision`, before `fuse_concats`.
int fuse_rotary(Model&, PassContext const&);

}  // namespace refactor::computation
