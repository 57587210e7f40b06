#include "elementwise/find_tile.h"

namespace refactor::kernel::elementwise {

/// ns for one element, from the instructions' throughput on a core of about 3 GHz; they decide when threads pay.
float cost_of(TileKey key, bool vectorised) {
    if (key.code >= TileCode::FirstExtra) return vectorised ? 0.06f : 1.f;
    switch (auto op = op_of(key.code); op) {
        case ExprOp::Div:
        case ExprOp::Mod:
        case ExprOp::Fmod:
            return vectorised ? 0.2f : 3.f;
        case ExprOp::Sqrt:
        case ExprOp::Rsqrt:
        case ExprOp::Reciprocal:
            return vectorised ? 0.2f : 2.f;
        case ExprOp::Pow:
            return vectorised ? 2.f : 15.f;
        default:
            if (op >= ExprOp::Exp && op <= ExprOp::Shrink && op != ExprOp::Relu && op != ExprOp::LeakyRelu)
                return vectorised ? 0.4f : 10.f;
            return vectorised ? 0.06f : 0.5f;
    }
}

TileFunction find_tile(TileKey key, [[maybe_unused]] Isa isa, bool& vectorised) {
    TileFunction function = nullptr;
#if RG_X86
    if (key.has_bf16()) {
        vectorised = true;
        return isa >= Isa::Avx512Bf16 ? tile_avx512bf16(key) : nullptr;
    }
    if (isa >= Isa::Avx512)
        function = tile_avx512(key);
    else if (isa >= Isa::Avx2)
        function = tile_avx2(key);
#endif
    if (key.has_bf16()) return nullptr;
    vectorised = function != nullptr;
    return function ? function : tile_generic(key);
}

}  // namespace refactor::kernel::elementwise
