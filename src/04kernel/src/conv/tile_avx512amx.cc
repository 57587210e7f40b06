#define RG_BF16_PAIRS
#include "conv/tile_rows_impl.h"

namespace refactor::kernel {

void run_rows_avx512amx(RowJob const& j) { run_rows_by_tiles<RoundedTaps>(j); }
void run_rows_split_avx512amx(RowJob const& j) { run_rows_by_tiles<SplitTaps>(j); }

}  // namespace refactor::kernel
