#include "lrn/lrn_tile_impl.h"

namespace refactor::kernel {

void lrn_tile_avx2(LrnTile const& tile) { run_tile(tile); }

}  // namespace refactor::kernel
