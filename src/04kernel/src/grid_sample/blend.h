#pragma once
#include <cstdint>

namespace refactor::kernel {

/// Positions are taken in blocks whose taps stay in L1: 2048 offsets and weights are 24 KiB.
constexpr int kBlockTaps = 2048;

/// Tap `k` of position `p` of a block is element `k * step + p`; a negative offset stands for zero.
struct SampleBlock {
    int64_t offset[kBlockTaps];
    float weight[kBlockTaps];
};

namespace detail {
template <int kTaps>
void blend(SampleBlock const& block, int taps, int positions, int step, float const* x, float* y) {
    auto n = kTaps ? kTaps : taps;
    for (int p = 0; p < positions; ++p) {
        float sum = 0;
        for (int k = 0; k < n; ++k) {
            auto offset = block.offset[k * step + p];
            sum += block.weight[k * step + p] * (offset < 0 ? 0.f : x[offset]);
        }
        y[p] = sum;
    }
}
}  // namespace detail

/// One channel `x` of a block of positions: y[p] = sum of weight · x[offset].
inline void blend(SampleBlock const& block, int taps, int positions, int step, float const* x, float* y) {
    if (taps == 4) return detail::blend<4>(block, taps, positions, step, x, y);
    if (taps == 8) return detail::blend<8>(block, taps, positions, step, x, y);
    if (taps == 1) return detail::blend<1>(block, taps, positions, step, x, y);
    detail::blend<0>(block, taps, positions, step, x, y);
}

}  // namespace refactor::kernel
