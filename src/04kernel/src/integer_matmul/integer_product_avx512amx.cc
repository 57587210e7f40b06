#define RG_GROUP 4
#define RG_VECTORS 4
#include "integer_matmul/integer_lanes_avx512.h"

namespace refactor::kernel {
namespace {

/// c + a · b, dword by dword.
RG_SIMD Lanes dot(Lanes c, Lanes a, Lanes b) { return {_mm512_dpbusd_epi32(c.v, a.v, b.v)}; }

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "integer_matmul/integer_sums.h"
#include "simd/ahead.h"
//
#include "integer_matmul/integer_tiles_impl.h"

namespace refactor::kernel {

void multiply_integers_avx512amx(IntegerBlock const& t) {
    multiply_by_tiles(t, integer_functions_avx512vnni().multiply);
}

}  // namespace refactor::kernel
