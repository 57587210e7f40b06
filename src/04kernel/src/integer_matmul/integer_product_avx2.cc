#define RG_GROUP 2
#define RG_ROWS 6
#define RG_VECTORS 2
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
#include "integer_matmul/integer_depthwise_avx2.h"
#include "integer_matmul/integer_pack_words.h"
#include "integer_matmul/integer_winograd_impl.h"
//
#include "integer_matmul/integer_winograd_filters.h"

namespace refactor::kernel {

IntegerFunctions const& integer_functions_avx2() {
    static constexpr IntegerFunctions kAll{
        RG_GROUP, kWidth,  kPanel,    kRows,    multiply,         depthwise_of_words, terms,         widen,
        sum,      nullptr, pack_rows, winograd, winograd_filters, depthwise_in_place, kPairChannels, kMostTapsInPlace};
    return kAll;
}

}  // namespace refactor::kernel
