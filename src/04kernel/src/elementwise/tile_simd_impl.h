#pragma once
// The tile functions of an ISA file: include a `simd/vec_*.h` first. Everything has internal linkage.
#include "elementwise/tile_loops.h"
// simd/math.h comes before vec_math.h.
#include "simd/math.h"
//
#include "elementwise/vec_math.h"

extern "C" {
float sinf(float) noexcept;
float cosf(float) noexcept;
}

namespace refactor::kernel::elementwise {
namespace {

RG_SIMD Vec load_lanes(float const* p, int64_t n) {
    return n >= Vec::width ? Vec::load(p) : Vec::load_first(p, static_cast<int>(n));
}
RG_SIMD void store_lanes(Vec v, float* p, int64_t n) {
    if (n >= Vec::width)
        v.store(p);
    else
        v.store_first(p, static_cast<int>(n));
}

template <class F>
void vec_unary(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<float const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<float*>(slots[op.out]);
    int64_t const step = op.repeated & 1 ? 0 : kBlock;
    if (op.padded) n = whole_blocks(op, n);
#pragma GCC unroll 4
    for (; n >= kBlock; n -= kBlock, a += step, out += kBlock)
#pragma GCC unroll 2
        for (int j = 0; j < kBlock; j += Vec::width) f(Vec::load(a + j)).store(out + j);
    for (int j = 0; j < n; j += Vec::width) store_lanes(f(load_lanes(a + j, n - j)), out + j, n - j);
}

template <class F>
void vec_binary(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<float const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<float const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<float*>(slots[op.out]);
    int64_t const step_a = op.repeated & 1 ? 0 : kBlock, step_b = op.repeated & 2 ? 0 : kBlock;
    if (op.padded) n = whole_blocks(op, n);
#pragma GCC unroll 4
    for (; n >= kBlock; n -= kBlock, a += step_a, b += step_b, out += kBlock)
#pragma GCC unroll 2
        for (int j = 0; j < kBlock; j += Vec::width) f(Vec::load(a + j), Vec::load(b + j)).store(out + j);
    for (int j = 0; j < n; j += Vec::width)
        store_lanes(f(load_lanes(a + j, n - j), load_lanes(b + j, n - j)), out + j, n - j);
}

template <class F>
void vec_ternary(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<float const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<float const*>(slots[op.in[1]]);
    auto const* c = reinterpret_cast<float const*>(slots[op.in[2]]);
    auto* out = reinterpret_cast<float*>(slots[op.out]);
    int64_t const step_a = op.repeated & 1 ? 0 : kBlock, step_b = op.repeated & 2 ? 0 : kBlock;
    int64_t const step_c = op.repeated & 4 ? 0 : kBlock;
    if (op.padded) n = whole_blocks(op, n);
#pragma GCC unroll 4
    for (; n >= kBlock; n -= kBlock, a += step_a, b += step_b, c += step_c, out += kBlock)
#pragma GCC unroll 2
        for (int j = 0; j < kBlock; j += Vec::width)
            f(Vec::load(a + j), Vec::load(b + j), Vec::load(c + j)).store(out + j);
    for (int j = 0; j < n; j += Vec::width)
        store_lanes(f(load_lanes(a + j, n - j), load_lanes(b + j, n - j), load_lanes(c + j, n - j)), out + j, n - j);
}

/// max and min that pass on a NaN of either side (the instructions return the second operand).
RG_SIMD Vec nan_max(Vec a, Vec b) { return select(is_nan(a), a, max(a, b)); }
RG_SIMD Vec nan_min(Vec a, Vec b) { return select(is_nan(a), a, min(a, b)); }
RG_SIMD Vec unit_clip(Vec x) { return min(Vec::set(1.f), max(Vec::zero(), x)); }
RG_SIMD Vec rsqrt(Vec x) { return Vec::set(1.f) / sqrt(x); }

#define RG_VEC_UNARY(name, expression)                                                              \
    struct name##V {                                                                                \
        RG_SIMD explicit name##V(TileOp const& op) : a(Vec::set(op.alpha)), b(Vec::set(op.beta)) {} \
        Vec a, b;                                                                                   \
        RG_SIMD Vec operator()(Vec x) const { return expression; }                                  \
    };
RG_VEC_UNARY(Abs, abs(x))
RG_VEC_UNARY(Neg, -x)
RG_VEC_UNARY(Sign, select(x > Vec::zero(), Vec::set(1.f), select(x < Vec::zero(), Vec::set(-1.f), x)))
RG_VEC_UNARY(Floor, floor(x))
RG_VEC_UNARY(Ceil, ceil(x))
RG_VEC_UNARY(Round, round(x))
RG_VEC_UNARY(Sqrt, sqrt(x))
RG_VEC_UNARY(Rsqrt, rsqrt(x))
RG_VEC_UNARY(Reciprocal, Vec::set(1.f) / x)
RG_VEC_UNARY(Exp, kernel::exp(x))
RG_VEC_UNARY(Log, kernel::log(x))
RG_VEC_UNARY(Erf, kernel::erf(x))
RG_VEC_UNARY(Tanh, kernel::tanh(x))
RG_VEC_UNARY(Sigmoid, sigmoid(x))
RG_VEC_UNARY(Relu, max(Vec::zero(), x))
RG_VEC_UNARY(Silu, x* sigmoid(x))
RG_VEC_UNARY(Softplus, softplus(x))
RG_VEC_UNARY(Softsign, x / (Vec::set(1.f) + abs(x)))
RG_VEC_UNARY(Mish, mish(x))
RG_VEC_UNARY(GeluErf, gelu_erf(x))
RG_VEC_UNARY(GeluTanh, gelu_tanh(x))
RG_VEC_UNARY(HardSwish, x* unit_clip(fma(x, Vec::set(1.f / 6), Vec::set(0.5f))))
RG_VEC_UNARY(LeakyRelu, select(x < Vec::zero(), a* x, x))
RG_VEC_UNARY(Elu, select(x < Vec::zero(), a* expm1(x), x))
RG_VEC_UNARY(Selu, select(x > Vec::zero(), b* x, b* a* expm1(x)))
RG_VEC_UNARY(Celu, select(x < Vec::zero(), a* expm1(x / a), x))
RG_VEC_UNARY(HardSigmoid, unit_clip(fma(a, x, b)))
RG_VEC_UNARY(ThresholdedRelu, select((x > a) | is_nan(x), x, Vec::zero()))
RG_VEC_UNARY(Shrink, select(x < -a, x + b, select(x > a, x - b, select(is_nan(x), x, Vec::zero()))))
RG_VEC_UNARY(Square, x* x)
RG_VEC_UNARY(Cube, x* x* x)
RG_VEC_UNARY(SquareRootPower, select(x == Vec::set(-__builtin_inff()), -x, sqrt(x + Vec::zero())))
#undef RG_VEC_UNARY

#define RG_VEC_BINARY(name, expression)                                   \
    struct name##V {                                                      \
        RG_SIMD explicit name##V(TileOp const&) {}                        \
        RG_SIMD Vec operator()(Vec x, Vec y) const { return expression; } \
    };
RG_VEC_BINARY(Add, x + y)
RG_VEC_BINARY(Sub, x - y)
RG_VEC_BINARY(Mul, x* y)
RG_VEC_BINARY(Div, x / y)
RG_VEC_BINARY(Min, nan_min(x, y))
RG_VEC_BINARY(Max, nan_max(x, y))
RG_VEC_BINARY(PRelu, select(x < Vec::zero(), x* y, x))
#undef RG_VEC_BINARY

struct ClipV {
    RG_SIMD explicit ClipV(TileOp const&) {}
    RG_SIMD Vec operator()(Vec x, Vec low, Vec high) const { return nan_min(nan_max(x, low), high); }
};
struct FmaV {
    RG_SIMD explicit FmaV(TileOp const&) {}
    RG_SIMD Vec operator()(Vec x, Vec y, Vec z) const { return fma(x, y, z); }
};

/// Sine and cosine; blocks with an angle too large for the quick reduction go through the C library.
template <bool kCosine>
void vec_angle(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = reinterpret_cast<float const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<float*>(slots[op.out]);
    int64_t const step = op.repeated & 1 ? 0 : kBlock;
    for (; n > 0; n -= kBlock, a += step, out += kBlock) {
        for (int j = 0; j < kBlock && j < n; j += Vec::width) {
            Vec x = load_lanes(a + j, n - j);
            if (!any(abs(x) > Vec::set(kLargestAngle))) {
                store_lanes(sin_quarter(x, kCosine ? 1.f : 0.f), out + j, n - j);
                continue;
            }
            for (int k = j; k < j + Vec::width && k < n; ++k) out[k] = kCosine ? cosf(a[k]) : sinf(a[k]);
        }
    }
}

TileFunction f32_function(TileCode code) {
    switch (code) {
        case TileCode::Square:
            return vec_unary<SquareV>;
        case TileCode::Cube:
            return vec_unary<CubeV>;
        case TileCode::SquareRootPower:
            return vec_unary<SquareRootPowerV>;
        default:
            break;
    }
    switch (op_of(code)) {
#define RG_OP(kind, name) \
    case ExprOp::name:    \
        return vec_##kind<name##V>;
        RG_OP(unary, Abs)
        RG_OP(unary, Neg)
        RG_OP(unary, Sign)
        RG_OP(unary, Floor)
        RG_OP(unary, Ceil)
        RG_OP(unary, Round)
        RG_OP(unary, Sqrt)
        RG_OP(unary, Rsqrt)
        RG_OP(unary, Reciprocal)
        RG_OP(unary, Exp)
        RG_OP(unary, Log)
        RG_OP(unary, Erf)
        RG_OP(unary, Tanh)
        RG_OP(unary, Sigmoid)
        RG_OP(unary, Relu)
        RG_OP(unary, Silu)
        RG_OP(unary, Softplus)
        RG_OP(unary, Softsign)
        RG_OP(unary, Mish)
        RG_OP(unary, GeluErf)
        RG_OP(unary, GeluTanh)
        RG_OP(unary, HardSwish)
        RG_OP(unary, LeakyRelu)
        RG_OP(unary, Elu)
        RG_OP(unary, Selu)
        RG_OP(unary, Celu)
        RG_OP(unary, HardSigmoid)
        RG_OP(unary, ThresholdedRelu)
        RG_OP(unary, Shrink)
        RG_OP(binary, Add)
        RG_OP(binary, Sub)
        RG_OP(binary, Mul)
        RG_OP(binary, Div)
        RG_OP(binary, Min)
        RG_OP(binary, Max)
        RG_OP(binary, PRelu)
        RG_OP(ternary, Clip)
        RG_OP(ternary, Fma)
#undef RG_OP
        case ExprOp::Sin:
            return vec_angle<false>;
        case ExprOp::Cos:
            return vec_angle<true>;
        case ExprOp::Equal:
        case ExprOp::Less:
        case ExprOp::LessEqual:
        case ExprOp::Greater:
        case ExprOp::GreaterEqual:
            return common_function<float>(code);
        default:
            return nullptr;
    }
}

template <class T>
TileFunction f64_function(TileCode code) {
    if (code == TileCode::Square) return binary_loop<T, T, MulF>;
    if (op_of(code) == ExprOp::Div) return binary_loop<T, T, DivF>;
    return common_function<T>(code);
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
        case DataType::Bool:
            return cast_from<Bool8>(key.result);
        default:
            return nullptr;
    }
}

RG_INLINE uint16_t f16_bits(float x) { return static_cast<uint16_t>(_cvtss_sh(x, 0)); }
RG_INLINE float f16_value(uint16_t x) { return _cvtsh_ss(x); }
RG_INLINE uint16_t bf16_bits(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof(bits));
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}
RG_INLINE float bf16_value(uint16_t x) {
    uint32_t bits = static_cast<uint32_t>(x) << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}

struct Bf16Store {
    explicit Bf16Store(TileOp const&) {}
    RG_INLINE uint16_t operator()(float x) const { return bf16_bits(x); }
};
struct Bf16Load {
    explicit Bf16Load(TileOp const&) {}
    RG_INLINE float operator()(uint16_t x) const { return bf16_value(x); }
};
struct Bf16Round {
    explicit Bf16Round(TileOp const&) {}
    RG_INLINE float operator()(float x) const { return bf16_value(bf16_bits(x)); }
};

/// f16 through the conversion instructions, eight elements at a time. kStore and kLoad tell what the sides are.
template <bool kLoad, bool kStore>
void f16_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = slots[op.in[0]];
    auto* out = slots[op.out];
    constexpr int64_t kIn = kLoad ? 2 : 4, kOut = kStore ? 2 : 4;
    int64_t const mask = op.repeated & 1 ? kBlock - 1 : -1;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        auto const* from = a + (i & mask) * kIn;
        __m256 x;
        if constexpr (kLoad)
            x = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(from)));
        else
            x = _mm256_loadu_ps(reinterpret_cast<float const*>(from));
        __m128i half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
        if constexpr (kStore)
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * kOut), half);
        else if constexpr (kLoad)
            _mm256_storeu_ps(reinterpret_cast<float*>(out + i * kOut), x);
        else
            _mm256_storeu_ps(reinterpret_cast<float*>(out + i * kOut), _mm256_cvtph_ps(half));
    }
    for (; i < n; ++i) {
        auto const* from = a + (i & mask) * kIn;
        float x;
        if constexpr (kLoad)
            x = f16_value(*reinterpret_cast<uint16_t const*>(from));
        else
            x = *reinterpret_cast<float const*>(from);
        if constexpr (kStore)
            *reinterpret_cast<uint16_t*>(out + i * kOut) = f16_bits(x);
        else
            *reinterpret_cast<float*>(out + i * kOut) = kLoad ? x : f16_value(f16_bits(x));
    }
}

TileFunction half_function(TileKey key) {
    bool round = key.code == TileCode::Round;
    if (key.operand == DataType::F16) return round ? f16_loop<false, false> : f16_loop<true, false>;
    if (key.operand == DataType::BF16)
        return round ? unary_loop<float, float, Bf16Round> : unary_loop<float, uint16_t, Bf16Load>;
    if (key.result == DataType::F16) return f16_loop<false, true>;
    if (key.result == DataType::BF16) return unary_loop<uint16_t, float, Bf16Store>;
    return nullptr;
}

TileFunction find_tile_function(TileKey key) {
    if (auto word = word_function(key.code, word_bits(key.operand))) return word;
    bool cast = key.code == code_of(ExprOp::Cast);
    if (cast || key.code == TileCode::Round) {
        auto half = half_function(key);
        return half || !cast ? half : isa_cast(key);
    }
    switch (key.operand) {
        case DataType::F32:
            return f32_function(key.code);
        case DataType::F64:
            return f64_function<double>(key.code);
        case DataType::I32:
            return common_function<int32_t>(key.code);
        case DataType::I64:
            return common_function<int64_t>(key.code);
        case DataType::Bool:
            return logic_function(key.code);
        default:
            return nullptr;
    }
}

}  // namespace
}  // namespace refactor::kernel::elementwise
