#pragma once
#include <cstdint>

namespace refactor::kernel {

/// A strip of `count` positions of one picture [channels, positions].
struct LrnTile {
    float const* x;
    float* y;
    float* squares;  ///< scratch: size + 1 rows of `kLrnStrip`
    int64_t channels, stride, count, size;
    float scale, beta, bias;  ///< scale: alpha / size
};
/// Positions of a strip: the squares of a window of 5 channels then take 6 KiB of L1, and whole cache lines are read.
inline constexpr int64_t kLrnStrip = 256;

void lrn_tile_avx2(LrnTile const&);
void lrn_tile_avx512(LrnTile const&);

}  // namespace refactor::kernel
