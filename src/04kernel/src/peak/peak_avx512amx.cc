#include "simd/vec_avx512.h"
// What it is written against.
#include "peak/peak.h"
#include "simd/tiles.h"

namespace refactor::kernel {
namespace {

/// Tiles are zero; four products do not wait for each other.
int64_t repeat(int64_t rounds, auto&& products) {
    TileRegisters registers(kTileColumns);
    registers.shape(kTileRows, kTileRows);
    static_assert(kPeakChains % 4 == 0);
    int64_t const times = rounds / kPeakTileRounds * (kPeakChains / 4);
    for (int64_t i = 0; i < times; ++i) products();
    return times;
}

}  // namespace

int64_t tile_pairs_avx512amx(int64_t rounds) {
    return repeat(
        rounds, []() __attribute__((always_inline)) {
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        });
}
int64_t tile_bytes_avx512amx(int64_t rounds) {
    return repeat(
        rounds, []() __attribute__((always_inline)) {
            _tile_dpbusd(0, 4, 6);
            _tile_dpbusd(1, 4, 7);
            _tile_dpbusd(2, 5, 6);
            _tile_dpbusd(3, 5, 7);
        });
}

}  // namespace refactor::kernel
