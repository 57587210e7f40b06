// The loops over tiles, which this processor need not have, on emulated ones.
#define RG_GROUP 4
#define RG_VECTORS 4
#include "integer_matmul/integer_lanes_avx512.h"
//
#include "emulated_avx512/amx.h"

namespace refactor::kernel {
namespace {

RG_SIMD Lanes dot(Lanes c, Lanes a, Lanes b) { return {_mm512_dpbusd_epi32(c.v, a.v, b.v)}; }

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "integer_matmul/integer_sums.h"
#include "simd/ahead.h"
//
#include "integer_matmul/integer_tiles_impl.h"

namespace refactor::kernel {

void multiply_on_emulated_tiles(IntegerBlock const& t) {
    multiply_by_tiles(t, integer_functions_avx512vnni().multiply);
}

}  // namespace refactor::kernel
