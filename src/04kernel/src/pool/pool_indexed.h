#pragma once
#include <cstdint>

namespace refactor::kernel {

/// One block of 8 channels of a maximum with positions. x: [positions][8], y and `found`: [outputs][8].
struct IndexedPool {
    float const* x;
    float* y;
    int32_t* found;  ///< position of the maximum as `position_step` counts it; -1 where the window holds no element
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3], position_step[3];
};
void indexed_pool_avx2(IndexedPool const& pool);
/// y[i] = x[i] + base
void widen_positions_avx2(int32_t const* x, int64_t base, int64_t count, int64_t* y);

}  // namespace refactor::kernel
