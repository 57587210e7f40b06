#include "conv/tile.h"

#if RG_X86

namespace refactor::kernel {

void run_rows_avx512amx(RowJob const&);

TileIsa const& tile_avx512amx() {
    static TileIsa const kAll = [] {
        auto isa = tile_avx512bf16();
        // Two tiles of positions, which read as many of the band whether it has them or not.
        isa.rows = run_rows_avx512amx, isa.columns = 32, isa.read_behind = 15, isa.whole_units = true, isa.speed = 8;
        return isa;
    }();
    return kAll;
}

}  // namespace refactor::kernel

#endif
