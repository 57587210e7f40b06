#pragma once
#include <cstdint>

namespace refactor::kernel {

/// Neighbouring sums of one strip at most: 4 KiB of them stay in L1, and runs of 2 KiB of f32 are long enough to be
/// fetched ahead.
inline constexpr int64_t kCumSumStrip = 512;

/// `size` rows, `step` apart, of `count` ≤ `kCumSumStrip` neighbouring sums; those of f32 are carried in f64. Y is X or
/// apart from it. `exclusive`: of what lies in front.
template <class T>
struct CumSumStrip {
    T const* x;
    T* y;
    int64_t size, step, count;
    bool exclusive;
};
void cumsum_strip_avx2(CumSumStrip<float> const& strip);
void cumsum_strip_avx2(CumSumStrip<int32_t> const& strip);
void cumsum_strip_avx2(CumSumStrip<int64_t> const& strip);
void cumsum_strip_avx512(CumSumStrip<float> const& strip);
void cumsum_strip_avx512(CumSumStrip<int32_t> const& strip);
void cumsum_strip_avx512(CumSumStrip<int64_t> const& strip);

}  // namespace refactor::kernel
