#pragma once
#include <cstdint>

namespace refactor::kernel {

/// The first k of `size` rows, `stride` apart, for each of `columns` ≤ `kTopKColumns` neighbours, in order.
struct TopKColumns {
    float const* x;
    float* values;
    int64_t* indices;
    int64_t size, k, stride, columns;
    int64_t result_stride;  ///< of rows of values and of indices
    bool smallest;
    int32_t* lists;  ///< [2, k, kTopKColumns], at a multiple of 32 bytes
};
inline constexpr int64_t kTopKColumns = 8;

void top_k_columns_avx2(TopKColumns const& columns);

}  // namespace refactor::kernel
