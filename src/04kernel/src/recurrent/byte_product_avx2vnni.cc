#define RG_QUAD_BYTES 4
#define RG_ROWS 6
#define RG_TILE 2
#include "integer_matmul/integer_lanes_avx2.h"

namespace refactor::kernel {
namespace {

using Weights = Lanes;
using Codes = Lanes;

RG_SIMD Weights load_weights(int8_t const* p) { return Lanes::load(p); }
RG_SIMD Codes load_codes(uint8_t const* p) {
    int32_t quad;
    __builtin_memcpy(&quad, p, 4);
    return Lanes::set(quad);
}
/// c + a · b, quad by quad.
RG_SIMD Lanes dot(Lanes c, Codes a, Weights b) { return dot_quads(c, a, b); }
RG_SIMD void store_codes(Lanes q, uint8_t* p) { q.store_bytes(p); }

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "recurrent/byte_product_impl.h"

namespace refactor::kernel {

ByteProductFunctions const& byte_product_functions_avx2vnni() { return kFunctions; }

}  // namespace refactor::kernel
