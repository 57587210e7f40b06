#pragma once
#include "pass.h"

namespace refactor::computation {

/// Products read matrices as they are before a Transpose that exchanges their last two axes; a factor between the two
/// becomes that of the product. Other axes that the Transpose moves stay with it, if rows then stay whole. Left alone:
/// rows that one matrix multiplies.
int fold_transposes(Model&, PassContext const&);

}  // namespace refactor::computation
