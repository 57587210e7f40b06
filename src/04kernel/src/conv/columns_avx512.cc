#include "conv/columns_impl.h"

namespace refactor::kernel {

ColumnsIsa const& columns_avx512() { return kColumnsIsa; }

}  // namespace refactor::kernel
