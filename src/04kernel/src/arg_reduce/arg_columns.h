#pragma once
#include <cstdint>

namespace refactor::kernel {

/// Where the extreme element of a column is: for some of `stride` columns of `size` rows.
struct ArgColumns {
    float const* x;  ///< the first row of the first column
    int64_t* y;      ///< [columns]
    int64_t size, stride, columns;
    bool min, last;  ///< the least; of equal ones the last
};

void arg_columns_avx2(ArgColumns const&);

}  // namespace refactor::kernel
