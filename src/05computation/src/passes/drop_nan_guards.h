#pragma once
#include "pass.h"

namespace refactor::computation {

/// where(isnan(x), a, x) becomes x where x is dequantised from bytes by finite constants, and so is a number. Must run
/// before `move_quantization`, for which the bytes around a guard then meet, and before elementwise nodes are fused.
int drop_nan_guards(Model&, PassContext const&);

}  // namespace refactor::computation
