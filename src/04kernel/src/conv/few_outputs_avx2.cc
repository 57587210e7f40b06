#include "conv/few_outputs_impl.h"

namespace refactor::kernel {

FewOutputsIsa const& few_outputs_avx2() { return kFewOutputsIsa; }

}  // namespace refactor::kernel
