#define RG_GROUP 2
#define RG_ROWS 6
#define RG_VECTORS 2
#define RG_NARROW
#include "integer_matmul/integer_lanes_avx2.h"

namespace refactor::kernel {
namespace {

/// c + a · b, dword by dword.
RG_SIMD Lanes dot(Lanes c, Lanes a, Lanes b) { return dot_words(c, a, b); }

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "integer_matmul/integer_product_impl.h"
//
#include "integer_matmul/integer_pack_bytes.h"

namespace refactor::kernel {

IntegerFunctions const& integer_functions_avx2_narrow() {
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
                                           .narrow = true};
    return kAll;
}

}  // namespace refactor::kernel
