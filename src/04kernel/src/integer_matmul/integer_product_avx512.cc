#define RG_GROUP 2
#define RG_ROWS 6
#define RG_VECTORS 4
#include "integer_matmul/integer_lanes_avx512.h"

namespace refactor::kernel {
namespace {

/// c + a · b, dword by dword.
RG_SIMD Lanes dot(Lanes c, Lanes a, Lanes b) { return dot_words(c, a, b); }

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "integer_matmul/integer_product_impl.h"
//
#include "integer_matmul/integer_pack_words.h"

namespace refactor::kernel {

IntegerFunctions const& integer_functions_avx512() {
    static IntegerFunctions const kAll = [] {
        auto functions = kFunctions;
        functions.pack_rows = pack_rows;
        // Two taps in a dword: without VNNI half of the instructions.
        auto const& pairs = integer_functions_avx2();
        functions.depthwise = pairs.depthwise, functions.depthwise_in_place = pairs.depthwise_in_place;
        functions.least_in_place = pairs.least_in_place, functions.most_taps_in_place = pairs.most_taps_in_place;
        return functions;
    }();
    return kAll;
}

}  // namespace refactor::kernel
