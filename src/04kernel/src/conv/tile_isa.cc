#include "common/cpu_features.h"
#include "conv/tile.h"

namespace refactor::kernel {

bool ends_in_half(int block, int64_t out_channels) {
    auto last = (out_channels - 1) % block + 1;
    return cpu_features().halves_512 && block == 16 && last <= block / 2;
}

}  // namespace refactor::kernel

#if RG_X86

namespace refactor::kernel {

void run_rows_avx512amx(RowJob const&);

TileIsa with_tiles(void (*rows)(RowJob const&)) {
    auto isa = tile_avx512bf16();
    // Two tiles of 16 positions, which are read whether they are there or not. Registers' rate is 14 times that of f32;
    // what is around the products takes as long.
    isa.rows = rows, isa.columns = 32, isa.read_behind = 15, isa.whole_units = true, isa.speed = 8;
    return isa;
}

TileIsa const& tile_avx512amx() {
    static TileIsa const kAll = with_tiles(run_rows_avx512amx);
    return kAll;
}

}  // namespace refactor::kernel

#endif
