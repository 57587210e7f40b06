#include "reorder/transpose_blocks_impl.h"

namespace refactor::kernel {

ReorderIsa const& reorder_avx2() { return kReorderIsa; }

}  // namespace refactor::kernel
