#include "conv/rounded_tile.h"

#define RG_BF16_PAIRS
// clang-format off: the first chooses the instructions of what follows.
#include "conv/tile_impl.h"
#include "simd/bf16_pairs.h"
// clang-format on

namespace refactor::kernel {
namespace {

void round_blocks(float const* low, float const* high, float* pairs, int64_t positions) {
    if (high)
        for (int64_t i = 0; i < positions * W; i += W)
            round_to_pairs(Vec::load(low + i), Vec::load(high + i)).store(pairs + i);
    else
        for (int64_t i = 0; i < positions * W; i += W) round_to_pairs(Vec::load(low + i), Vec::zero()).store(pairs + i);
}

void round_rows(float const* even, float const* odd, float* pairs, int64_t count) {
    for (int64_t i = 0; i < count; i += W) {
        int left = count - i < W ? static_cast<int>(count - i) : W;
        Vec second = odd ? Vec::load_first(odd + i, left) : Vec::zero();
        round_side_by_side(Vec::load_first(even + i, left), second).store_first(pairs + i, left);
    }
}

constexpr RoundedTileIsa kRounded{kTileIsa, round_blocks, round_rows};

}  // namespace

RoundedTileIsa const& rounded_tile_avx512bf16() { return kRounded; }

}  // namespace refactor::kernel
