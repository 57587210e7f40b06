#pragma once
#include "pass.h"

namespace refactor::computation {

/// Attention reads Q, K and V where a product left them and writes Y as the next product takes it: the transposes,
/// slices and splits of heads between them are steps from one element to the next.
int view_operands(Model&, PassContext const&);

}  // namespace refactor::computation
