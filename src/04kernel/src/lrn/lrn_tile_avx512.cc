#include "lrn/lrn_tile_impl.h"

namespace refactor::kernel {

void lrn_tile_avx512(LrnTile const& tile) { run_tile(tile); }

}  // namespace refactor::kernel
