#pragma once
#include "common/data_type.h"

#include <cstdint>

namespace refactor::kernel {

/// Columns that `ArgIntegers` may have at most: their best elements and positions stay in L1.
inline constexpr int64_t kArgColumns = 256;

/// Where the extreme element is: of one row, or of neighbouring columns of `size` rows, `stride` elements apart.
struct ArgIntegers {
    void const* x;
    int64_t* y;  ///< [columns]
    int64_t size, stride, columns;
};
using ArgIntegersFunction = void (*)(ArgIntegers const&);

/// `min`: the least; `last`: of equal ones the last; `rows`: of one row, whose elements lie one behind the other. Null
/// if `dtype` is none of whole integers.
ArgIntegersFunction arg_integers_avx2(DataType dtype, bool min, bool last, bool rows);

}  // namespace refactor::kernel
