#pragma once
#include "pass.h"

namespace refactor::computation {

/// Convolutions do not compute the positions that a Slice cuts off at once, as behind those that are padded on both
/// sides to look back only: less padding, and what follows the Slice can become their epilogue. Left alone: positions
/// of whole images (no padding makes them), results that others read, sizes that are not known to differ by numbers.
/// Behind `fold_pads`, which makes paddings wider.
int trim_convolutions(Model&, PassContext const&);

}  // namespace refactor::computation
