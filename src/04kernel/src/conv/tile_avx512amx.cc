#include "conv/tile_rows_impl.h"

namespace refactor::kernel {

void run_rows_avx512amx(RowJob const& j) { run_rows_by_tiles<1>(j); }
void run_rows_split_avx512amx(RowJob const& j) { run_rows_by_tiles<kParts>(j); }

}  // namespace refactor::kernel
