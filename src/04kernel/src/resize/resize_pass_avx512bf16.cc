#include "simd/vec_avx512.h"
//
#include "resize/resize_pass.h"
#include "simd/bf16_blocks.h"
#include "simd/bf16_pairs.h"

namespace refactor::kernel {
namespace {

void widen_row(uint16_t const* x, float* y, int64_t size) {
    int64_t i = 0;
    for (; i + Vec::width <= size; i += Vec::width) load_bf16(x + i).store(y + i);
    for (; i < size; ++i) {
        uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
        __builtin_memcpy(y + i, &bits, sizeof bits);
    }
}

/// Columns [at, at + n) of the sum of weighted rows, n ≤ 16.
RG_SIMD Vec sum_of(int count, float const* const* rows, float const* weights, int64_t at, int n) {
    Vec sum = Vec::set(weights[0]) * Vec::load_first(rows[0] + at, n);
    for (int k = 1; k < count; ++k) sum = fma(Vec::set(weights[k]), Vec::load_first(rows[k] + at, n), sum);
    return sum;
}
RG_SIMD Vec sum_of(int count, float const* const* rows, float const* weights, int64_t at) {
    Vec sum = Vec::set(weights[0]) * Vec::load(rows[0] + at);
    for (int k = 1; k < count; ++k) sum = fma(Vec::set(weights[k]), Vec::load(rows[k] + at), sum);
    return sum;
}

void blend_narrow(int count, float const* const* rows, float const* weights, float*, uint16_t* y, int64_t size) {
    constexpr int kTwo = 2 * Vec::width;
    int64_t i = 0;
    for (; i + kTwo <= size; i += kTwo)
        round_to_pairs(sum_of(count, rows, weights, i), sum_of(count, rows, weights, i + Vec::width))
            .store(reinterpret_cast<float*>(y + i));
    for (; i < size; i += Vec::width) {
        int n = size - i < Vec::width ? static_cast<int>(size - i) : Vec::width;
        alignas(64) uint16_t some[Vec::width];
        store_bf16(sum_of(count, rows, weights, i, n), some);
        __builtin_memcpy(y + i, some, static_cast<size_t>(n) * sizeof(uint16_t));
    }
}

}  // namespace

ResizeFunctions const& resize_functions_avx512bf16() {
    static ResizeFunctions const kFunctions{resize_functions_avx512().resize, resize_functions_avx512().blend,
                                            widen_row, blend_narrow, resize_functions_avx512().pick};
    return kFunctions;
}

}  // namespace refactor::kernel
