#pragma once
#include "conv/tile.h"

namespace refactor::kernel {

/// The register tile over pairs of channels of bf16 that share a lane (VDPBF16PS): what a block of floats is elsewhere
/// is a block of pairs, in inputs and weights. Bias, residual and Y are f32.
struct RoundedTileIsa {
    TileIsa tile;
    /// Two neighbouring blocks of channels of f32 (`high` null: zeros) to one of pairs, at so many positions.
    void (*round_blocks)(float const* low, float const* high, float* pairs, int64_t positions);
    /// The same for rows of numbers that lie beside each other: pairs[i] = {even[i], odd[i]}, `odd` null: zeros.
    void (*round_rows)(float const* even, float const* odd, float* pairs, int64_t count);
};
RoundedTileIsa const& rounded_tile_avx512bf16();

}  // namespace refactor::kernel
