#pragma once
// The tile functions of an ISA file: include a `simd/vec_*.h` first and define RG_TILE_F64, which has those of f64.
// Everything has internal linkage.
#include "elementwise/integer_functors.h"
#include "elementwise/tile_tables.h"
#include "elementwise/vec_bytes.h"
#include "elementwise/vec_half.h"
#include "elementwise/vec_loops.h"
// simd/math.h comes before vec_math.h, and that before vec_functors.h.
#include "simd/math.h"
//
#include "elementwise/vec_math.h"
#include "elementwise/vec_packs.h"
#include "elementwise/vec_power.h"
#include "elementwise/vec_remainder.h"
#include "elementwise/vec_widen.h"
//
#include "elementwise/vec_functors.h"
//
#include "elementwise/vec_hyperbolic.h"
#include "elementwise/vec_table.h"

namespace refactor::kernel::elementwise {
namespace {

/// Quotients of i32, or remainders, as those of f64: a quotient that is no integer is further from one than f64 rounds.
/// Blocks whose divisors are not all valid go through the exact function, which says what is wrong.
template <ExprOp kOp>
void divide_i32(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = reinterpret_cast<int32_t const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<int32_t const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<int32_t*>(slots[op.out]);
    int64_t const mask_a = mask_of(op, 0), mask_b = mask_of(op, 1);
    for (int64_t i = 0; i < n; i += kBlock, out += kBlock) {
        auto const *x = a + (i & mask_a), *y = b + (i & mask_b);
        if (i + kBlock > n) return exact_i32_division(kOp, op, x, y, out, n - i);
        int32_t invalid = 0;
        for (int j = 0; j < kBlock; ++j)
            invalid |= (y[j] == 0 ? 1 : 0) | ((y[j] == -1 ? 1 : 0) & (x[j] == INT32_MIN ? 1 : 0));
        if (invalid) {
            exact_i32_division(kOp, op, x, y, out, kBlock);
            continue;
        }
        int32_t quotients[kBlock];
        for (int j = 0; j < kBlock; j += 4) {
            auto load = [j](int32_t const* p) { return _mm_loadu_si128(reinterpret_cast<__m128i const*>(p + j)); };
            __m256d ratio = _mm256_div_pd(_mm256_cvtepi32_pd(load(x)), _mm256_cvtepi32_pd(load(y)));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(quotients + j), _mm256_cvttpd_epi32(ratio));
        }
#pragma GCC ivdep
        for (int j = 0; j < kBlock; ++j) {
            auto quotient = quotients[j];
            auto rest = x[j] - quotient * y[j];
            bool turns = kOp == ExprOp::Mod && rest != 0 && (rest ^ y[j]) < 0;
            out[j] = kOp == ExprOp::Div ? quotient : rest + (turns ? y[j] : 0);
        }
    }
}
template <class T>
TileFunction integer_function_of(TileCode code) {
    auto common = common_function<T>(code);
    return common ? common : bit_function<T>(code);
}
TileFunction i32_function(TileCode code) {
    switch (op_of(code)) {
        case ExprOp::Div:
            return divide_i32<ExprOp::Div>;
        case ExprOp::Mod:
            return divide_i32<ExprOp::Mod>;
        case ExprOp::Fmod:
            return divide_i32<ExprOp::Fmod>;
        default:
            return integer_function_of<int32_t>(code);
    }
}

struct PowV {
    RG_SIMD explicit PowV(TileOp const&) {}
    RG_SIMD Vec operator()(Vec x, Vec y) const { return power(x, y); }
};
struct TangentF {
    RG_INLINE static float far(float x) { return tanf(x); }
    RG_SIMD static Vec near(Vec x) { return select(x == Vec::zero(), x, elementwise::tan(x)); }
};
struct IsInfV {
    explicit IsInfV(TileOp const& op) : positive(op.alpha != 0), negative(op.beta != 0) {}
    uint8_t positive, negative;
    RG_INLINE uint8_t operator()(float x) const {
        constexpr float kInf = __builtin_inff();
        return static_cast<uint8_t>(((x == kInf) & positive) | ((x == -kInf) & negative));
    }
};
TileFunction f32_function(TileCode code) {
    switch (op_of(code)) {
        case ExprOp::IsInf:
            return unary_loop<uint8_t, float, IsInfV>;
        case ExprOp::Mod:
            return remainder_f32<ExprOp::Mod>;
        case ExprOp::Fmod:
            return remainder_f32<ExprOp::Fmod>;
        case ExprOp::Pow:
            return vec_binary<PowV>;
        case ExprOp::Tan:
            return vec_angle<TangentF>;
        case ExprOp::Sinh:
            return vec_unary<SinhV>;
        case ExprOp::Cosh:
            return vec_unary<CoshV>;
        case ExprOp::Asinh:
            return vec_unary<AsinhV>;
        case ExprOp::Acosh:
            return vec_unary<AcoshV>;
        case ExprOp::Atanh:
            return vec_unary<AtanhV>;
        default:
            return vec_function(code);
    }
}

/// Casts among the types that occur in real models.
template <class A>
TileFunction cast_from(DataType result) {
    switch (result) {
        case DataType::F32:
            return cast_function<float, A>();
        case DataType::F64:
            return cast_function<double, A>();
        case DataType::I32:
            return cast_function<int32_t, A>();
        case DataType::I64:
            return cast_function<int64_t, A>();
        case DataType::U8:
            return cast_function<uint8_t, A>();
        case DataType::Bool:
            return cast_function<Bool8, A>();
        default:
            return nullptr;
    }
}

TileFunction isa_cast(TileKey key) {
    switch (key.operand) {
        case DataType::F32:
            return cast_from<float>(key.result);
        case DataType::F64:
            return cast_from<double>(key.result);
        case DataType::I32:
            return cast_from<int32_t>(key.result);
        case DataType::I64:
            return cast_from<int64_t>(key.result);
        case DataType::U8:
            return cast_from<uint8_t>(key.result);
        case DataType::I8:
            return cast_from<int8_t>(key.result);
        case DataType::Bool:
            return cast_from<Bool8>(key.result);
        default:
            return nullptr;
    }
}

TileFunction find_tile_function(TileKey key) {
    if (auto word = word_function(key.code, word_bits(key.operand))) return word;
    if (key.code >= TileCode::Dequantize && key.code <= TileCode::QuantizeToByte) return byte_function(key);
    bool cast = key.code == code_of(ExprOp::Cast);
    if (cast || key.code == TileCode::Round) {
        if (auto half = half_function(key)) return half;
        if (!cast) return nullptr;
        if (auto bytes = byte_function(key)) return bytes;
        auto widening = widening_function(key);
        return widening ? widening : isa_cast(key);
    }
    switch (key.operand) {
        case DataType::F32:
            return f32_function(key.code);
        case DataType::F64:
            return RG_TILE_F64(key.code);
        case DataType::I32:
            return i32_function(key.code);
        case DataType::I64:
            return integer_function_of<int64_t>(key.code);
        case DataType::I8:
            return integer_function_of<int8_t>(key.code);
        case DataType::I16:
            return integer_function_of<int16_t>(key.code);
        case DataType::U8:
            return integer_function_of<uint8_t>(key.code);
        case DataType::U16:
            return integer_function_of<uint16_t>(key.code);
        case DataType::U32:
            return integer_function_of<uint32_t>(key.code);
        case DataType::U64:
            return integer_function_of<uint64_t>(key.code);
        case DataType::Bool:
            return logic_function(key.code);
        default:
            return nullptr;
    }
}

}  // namespace
}  // namespace refactor::kernel::elementwise
