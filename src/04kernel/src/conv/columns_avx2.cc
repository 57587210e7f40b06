#include "conv/columns_impl.h"

namespace refactor::kernel {

ColumnsIsa const& columns_avx2() { return kColumnsIsa; }

}  // namespace refactor::kernel
