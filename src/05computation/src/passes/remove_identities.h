#pragma once
#include "pass.h"

namespace refactor::computation {

/// Removes operators that change nothing (reshape, transpose, slice, pad, expand, cast to the same; concat of one),
/// merges chains of reshapes and of transposes, turns transposes that only move axes of size 1 and gathers of the only
/// element of an axis into reshapes, and takes initial states that are zero from recurrent layers and expands from
/// operands that are broadcast anyway. Kept tensors stay.
int remove_identities(Model&, PassContext const&);

}  // namespace refactor::computation
