#pragma once
#include "pass.h"

namespace refactor::computation {

/// A product of one-hot rows, f32(index == [0, 1, … K - 1]), with constants becomes a lookup in what the product,
/// epilogue included, makes of each of the K rows; an index outside of them finds what it makes of zeros. Products that
/// read anything else that is not constant, and results that are smaller than the table, are left alone. Run it after
/// fuse_elementwise, by which the one-hot rows are one program, and fuse_epilogues.
int look_up_one_hots(Model&, PassContext const&);

}  // namespace refactor::computation
