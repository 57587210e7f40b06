#include "conv/first_tiles_impl.h"

namespace refactor::kernel {

void fill_first_band_avx512amx(FirstBand const& b) { fill_first_band(b); }
void run_first_rows_avx512amx(FirstRow const* rows, int64_t count) { run_first_rows(rows, count); }

}  // namespace refactor::kernel
