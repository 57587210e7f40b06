#define RG_GROUP 4
#define RG_ROWS 6
#define RG_VECTORS 2
#define RG_SPILLS
#include "integer_matmul/integer_lanes_avx2.h"

namespace refactor::kernel {
namespace {

/// c + a · b, dword by dword.
RG_SIMD Lanes dot(Lanes c, Lanes a, Lanes b) { return dot_bytes(c, a, b); }

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "integer_matmul/integer_product_impl.h"
//
#include "integer_matmul/integer_pack_bytes.h"

namespace refactor::kernel {

IntegerFunctions const& integer_functions_avx2_bytes() {
    static constexpr IntegerFunctions kAll{.group = RG_GROUP,
                                           .width = kWidth,
                                           .panel = kPanel,
                                           .rows = kRows,
                                           .multiply = multiply,
                                           .depthwise = nullptr,
                                           .terms = terms,
                                           .widen = widen,
                                           .sum = sum,
                                           .pack_rows = pack_rows,
                                           .spills = true};
    return kAll;
}

}  // namespace refactor::kernel
