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
void run_rows_split_avx512amx(RowJob const&);
void split_band_avx512(BandJob const&);

namespace {

/// Two tiles of 16 positions, which are read whether they are there or not.
constexpr int kTwoTiles = 32, kPositionsBehind = 15;

}  // namespace

TileIsa with_tiles(void (*rows)(RowJob const&)) {
    auto isa = tile_avx512bf16();
    // Registers' rate is 14 times that of f32; what is around the products takes as long.
    isa.rows = rows, isa.columns = kTwoTiles, isa.read_behind = kPositionsBehind, isa.whole_units = true, isa.speed = 8;
    return isa;
}
TileIsa with_split_tiles(void (*rows)(RowJob const&)) {
    // Six products in a fourteenth of the time each.
    return {.block = tile_avx512().block,
            .columns = kTwoTiles,
            .rows = rows,
            .band = split_band_avx512,
            .planar_band = nullptr,
            .parts = 3,
            .read_behind = kPositionsBehind,
            .speed = 2.2};
}

TileIsa const& tile_avx512amx() {
    static TileIsa const kAll = with_tiles(run_rows_avx512amx);
    return kAll;
}
TileIsa const& tile_split_avx512amx() {
    static TileIsa const kAll = with_split_tiles(run_rows_split_avx512amx);
    return kAll;
}

}  // namespace refactor::kernel

#endif
