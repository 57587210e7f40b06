#include "matmul/rounded_product_impl.h"

namespace refactor::kernel {
namespace {

template <class T>
void pack_pairs(float* target, T const* b, int64_t b_row, bool columns, int64_t n, int64_t k) {
    for (int64_t j = 0; j < n; j += kPanel) {
        int64_t count = smaller(kPanel, n - j), wide = width_of(count);
        if (columns)
            pack_pairs_of_columns(target, b + j * b_row, b_row, count, k, wide);
        else
            pack_pairs_of_rows(target, b + j, b_row, count, k, wide);
        target += pairs_of(k) * wide;
    }
}

constexpr RoundedFunctions kRounded{
    {kWidth, kRows, kPanel, multiply, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, pack_pairs<float>},
    round_rows,
    pack_pairs<uint16_t>,
    narrow};

}  // namespace

RoundedFunctions const& rounded_functions_avx512bf16() { return kRounded; }

}  // namespace refactor::kernel
