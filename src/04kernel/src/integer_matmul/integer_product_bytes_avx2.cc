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

namespace {

int64_t spills(int32_t const* dwords, int64_t vectors) {
    __m256i const ones = _mm256_set1_epi8(1), most = _mm256_set1_epi16(kMostOfPair);
    int64_t count = 0;
    for (int64_t i = 0; i < vectors; ++i) {
        __m256i pairs = _mm256_maddubs_epi16(ones, Lanes::load(dwords + i * kWidth).v);
        __m256i beyond = _mm256_cmpgt_epi16(_mm256_abs_epi16(pairs), most);
        count += _mm256_testz_si256(beyond, beyond) == 0;
    }
    return count;
}

}  // namespace

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
                                           .spills = spills};
    return kAll;
}

}  // namespace refactor::kernel
