// The loops over tiles, which this processor need not have, on emulated ones.
#define RG_BF16_PAIRS
#include "emulated_avx512/amx.h"
//
#include "conv/tile_rows_impl.h"

namespace refactor::kernel {

void run_rows_on_emulated_tiles(RowJob const& j) { run_rows_by_tiles<RoundedTaps>(j); }

}  // namespace refactor::kernel
