// The loops over tiles, which this processor need not have, on emulated ones.
#include "emulated_avx512/amx.h"
//
#include "conv/tile_rows_impl.h"

namespace refactor::kernel {

void run_split_rows_on_emulated_tiles(RowJob const& j) { run_rows_by_tiles<SplitTaps>(j); }

}  // namespace refactor::kernel
