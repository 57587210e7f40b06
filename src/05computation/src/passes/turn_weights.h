#pragma once
#include "pass.h"

namespace refactor::computation {

/// Constant matrices that a GPU multiplies few rows by (as in decoding), or by a number of rows that is not known, lie
/// [N, K]: a warp then reads a column of the product in one piece, and nothing is added up across blocks. Products of
/// many rows by the library take either. Behind all passes that make products, before `fold_constants`, which turns
/// them.
int turn_weights(Model&, PassContext const&);

}  // namespace refactor::computation
