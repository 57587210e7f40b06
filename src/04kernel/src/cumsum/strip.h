#pragma once
#include <cstdint>

namespace refactor::kernel {

/// `size` rows, `step` apart, of `count` neighbouring sums that are carried in `totals`, which are f64. Y is X or apart
/// from it. `exclusive`: of what lies in front.
struct CumSumStrip {
    float const* x;
    float* y;
    double* totals;
    int64_t size, step, count;
    bool exclusive;
};
void cumsum_strip_avx2(CumSumStrip const& strip);

}  // namespace refactor::kernel
