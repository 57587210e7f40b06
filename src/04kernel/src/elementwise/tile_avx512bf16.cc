#include "simd/vec_avx512.h"
// simd/math.h comes before vec_math.h, and that before vec_functors.h.
#include "simd/math.h"
//
#include "elementwise/vec_math.h"
//
#include "elementwise/vec_functors.h"
//
#include "elementwise/vec_bf16.h"

namespace refactor::kernel::elementwise {

TileFunction tile_avx512bf16(TileKey key) {
    switch (op_of(key.code)) {
#define RG_OP(kind, name) \
    case ExprOp::name:    \
        return bf16_##kind<name##V>(key);
        RG_OP(unary, Relu)
        RG_OP(unary, LeakyRelu)
        RG_OP(unary, Tanh)
        RG_OP(unary, Sigmoid)
        RG_OP(unary, Silu)
        RG_OP(unary, GeluErf)
        RG_OP(unary, GeluTanh)
        RG_OP(unary, HardSigmoid)
        RG_OP(unary, HardSwish)
        RG_OP(binary, Add)
        RG_OP(binary, Sub)
        RG_OP(binary, Mul)
        RG_OP(ternary, Clip)
        RG_OP(ternary, Fma)
#undef RG_OP
        default:
            return nullptr;
    }
}

}  // namespace refactor::kernel::elementwise
