#pragma once
#include "pass.h"

namespace refactor::computation {

/// Removes operators that change nothing (reshape, transpose, slice, expand, cast to the same; concat of one), merges
/// chains of reshapes and of transposes, and turns transposes that only move axes of size 1 into reshapes. Kept tensors
/// stay.
int remove_identities(Model&, PassContext const&);

}  // namespace refactor::computation
