#pragma once
#include <cstdint>

namespace refactor::kernel {

/// `size` rows, `step` apart, of `count` neighbouring sums; those of f32 are carried in f64. Y is X or apart from it.
/// `exclusive`: of what lies in front.
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
