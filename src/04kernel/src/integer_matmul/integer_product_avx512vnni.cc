#define RG_GROUP 4
#define RG_ROWS 6
#define RG_VECTORS 4
#include "integer_matmul/integer_lanes_avx512.h"

namespace refactor::kernel {
namespace {

/// c + a · b, dword by dword.
RG_SIMD Lanes dot(Lanes c, Lanes a, Lanes b) { return {_mm512_dpbusd_epi32(c.v, a.v, b.v)}; }

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "integer_matmul/integer_product_impl.h"
//
#include "integer_matmul/integer_depthwise_vnni.h"
#include "integer_matmul/integer_narrow_avx512.h"
#include "integer_matmul/integer_pack_vnni.h"
#include "integer_matmul/integer_strips_vnni_impl.h"
#include "integer_matmul/integer_winograd_impl.h"
//
#include "integer_matmul/integer_winograd_filters.h"

namespace refactor::kernel {

IntegerFunctions const& integer_functions_avx512vnni() {
    static constexpr IntegerFunctions kNarrowBlocks{RG_GROUP, kWidth, kWidth, kNarrowRows, multiply_narrow, depthwise,
                                                    terms,    widen,  sum,    nullptr,     pack_rows<1>};
    static constexpr auto kWithBytes = [] {
        IntegerFunctions all{RG_GROUP,
                             kWidth,
                             kPanel,
                             kRows,
                             multiply,
                             depthwise,
                             terms,
                             widen,
                             sum,
                             depthwise_strips,
                             pack_rows<kVectors>,
                             winograd,
                             winograd_filters};
        all.few_columns = &kNarrowBlocks;
        return all;
    }();
    return kWithBytes;
}

}  // namespace refactor::kernel
