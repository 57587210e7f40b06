#include "cuda/expression_source.h"

namespace refactor::kernel::cuda {

// One function for each ExprOp, with the semantics of elementwise/reference_math.cc. The emulator of tests
// (cuda_emulator/builtins.cc) defines RG_HOST and what is left out here.
char const* const kPrelude = R"cuda(
typedef unsigned long long rg_u64;
typedef long long rg_i64;
#define RG_FN static __device__ __forceinline__
#define RG_MEMBER __device__ __forceinline__
#define RG_GLOBAL extern "C" __global__ void __launch_bounds__(256)
// What comes behind it sees what earlier launches wrote. A function that begins so may be launched before they end, see
// `load` of cuda_plugin/nvrtc.cc.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define RG_WAIT() asm volatile("griddepcontrol.wait;\n\tgriddepcontrol.launch_dependents;" ::: "memory")
#else
#define RG_WAIT() ((void)0)
#endif
#define RG_FOR(Index, g, n) \
    for (Index g = (Index)blockIdx.x * 256 + threadIdx.x; g < (n); g += (Index)gridDim.x * 256)
#ifndef RG_HOST
RG_FN float rg_from_f16(unsigned short x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
RG_FN unsigned short rg_to_f16(float x) { unsigned short y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
RG_FN unsigned short rg_to_bf16(float x) { unsigned short y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
#endif
RG_FN float rg_f32(unsigned bits) { return __uint_as_float(bits); }
RG_FN double rg_f64(rg_u64 bits) { return __longlong_as_double((rg_i64)bits); }
RG_FN float rg_from_bf16(unsigned short x) { return rg_f32((unsigned)x << 16); }
RG_FN float rg_round_f16(float x) { return rg_from_f16(rg_to_f16(x)); }
RG_FN float rg_round_bf16(float x) { return rg_from_bf16(rg_to_bf16(x)); }

// Tells the run that data makes no sense: a number of runtime::Fault, and the offending number. Any one report will do.
RG_FN void rg_report(rg_u64* word, unsigned fault, rg_i64 number) {
    if (word) *(rg_u64 volatile*)word = (rg_u64)fault << 32 | (unsigned)number;
}

struct rg_f16 { unsigned short bits; };
struct rg_bf16 { unsigned short bits; };
template <class T, int N> struct alignas(sizeof(T) * N) rg_vec { T v[N]; };
// A vector as it is loaded. Words stay as they are until they are used, while elements of less than 32 bits are taken apart
// at once where a condition guards the load, which then waits for the memory before the next can begin.
template <int bytes> struct rg_raw_of { typedef rg_vec<unsigned, bytes / 4> type; };
template <> struct rg_raw_of<1> { typedef rg_vec<unsigned char, 1> type; };
template <> struct rg_raw_of<2> { typedef rg_vec<unsigned short, 1> type; };
template <class Vector> using rg_raw = typename rg_raw_of<sizeof(Vector)>::type;
template <class Vector> RG_FN Vector rg_taken(rg_raw<Vector> const& raw) {
    Vector vector;
    memcpy(&vector, &raw, sizeof vector);
    return vector;
}
template <class T> struct rg_is_real { static constexpr bool value = false; };
template <> struct rg_is_real<float> { static constexpr bool value = true; };
template <> struct rg_is_real<double> { static constexpr bool value = true; };
template <class T> constexpr bool rg_real = rg_is_real<T>::value;
template <class T> constexpr bool rg_signed = T(-1) < T(0);

#define RG_MATH(name) \
    RG_FN float m_##name(float x) { return name##f(x); } \
    RG_FN double m_##name(double x) { return name(x); }
RG_MATH(fabs) RG_MATH(floor) RG_MATH(ceil) RG_MATH(rint) RG_MATH(sqrt) RG_MATH(exp) RG_MATH(expm1) RG_MATH(log)
RG_MATH(log1p) RG_MATH(erf) RG_MATH(sin) RG_MATH(cos) RG_MATH(tan) RG_MATH(asin) RG_MATH(acos) RG_MATH(atan)
RG_MATH(sinh) RG_MATH(cosh) RG_MATH(tanh) RG_MATH(asinh) RG_MATH(acosh) RG_MATH(atanh)
RG_FN float m_fmod(float x, float y) { return fmodf(x, y); }
RG_FN double m_fmod(double x, double y) { return fmod(x, y); }
RG_FN float m_pow(float x, float y) { return powf(x, y); }
RG_FN double m_pow(double x, double y) { return pow(x, y); }
RG_FN float m_copysign(float x, float y) { return copysignf(x, y); }
RG_FN double m_copysign(double x, double y) { return copysign(x, y); }
RG_FN float m_fma(float x, float y, float z) { return fmaf(x, y, z); }
RG_FN double m_fma(double x, double y, double z) { return fma(x, y, z); }

// As x86 converts: what does not fit becomes the lowest value of i32 (i64 for wide targets), cut to the target.
template <class T, class X> RG_FN T rg_int(X x) {
    if constexpr (sizeof(T) == 8 && !rg_signed<T>)
        if (x >= X(9223372036854775808.)) return (T)((rg_u64)rg_int<rg_i64>(X(x - X(9223372036854775808.))) + (1ull << 63));
    constexpr X limit = sizeof(T) == 8 || (sizeof(T) == 4 && !rg_signed<T>) ? X(9223372036854775808.) : X(2147483648.);
    return (T)(rg_i64)(x >= -limit && x < limit ? x : -limit);
}
template <class T> struct rg_is_bool { static constexpr bool value = false; };
template <> struct rg_is_bool<bool> { static constexpr bool value = true; };
template <class T, class X> RG_FN T rg_Cast(X x) {
    if constexpr (rg_is_bool<T>::value) return x != X(0);
    else if constexpr (rg_real<X> && !rg_real<T>) return rg_int<T>(x);
    else return (T)x;
}

#define RG_ARITHMETIC(name, op) \
    template <class T> RG_FN T rg_##name(T a, T b) { \
        if constexpr (rg_real<T>) return a op b; \
        else return (T)((rg_u64)a op (rg_u64)b); \
    }
RG_ARITHMETIC(Add, +) RG_ARITHMETIC(Sub, -) RG_ARITHMETIC(Mul, *)
// The quotient of the lowest number and -1 wraps.
template <class T> RG_FN T rg_Div(T a, T b) {
    if constexpr (!rg_real<T> && rg_signed<T>)
        if (b == T(-1)) return (T)(0 - (rg_u64)a);
    return (T)(a / b);
}
template <class T> RG_FN T rg_Fmod(T a, T b) {
    if constexpr (rg_real<T>) return m_fmod(a, b);
    else return rg_signed<T> && b == T(-1) ? T(0) : (T)(a % b);
}
template <class T> RG_FN T rg_divisor(T a, T b, rg_u64* fault) {
    if (b != T(0)) return b;
    rg_report(fault, 2, (rg_i64)a);
    return T(1);
}
template <class T> RG_FN T rg_Mod(T a, T b) {
    T r = rg_Fmod(a, b);
    if constexpr (rg_real<T>)
        if (r == T(0)) return m_copysign(r, b);
    return r != T(0) && (r < T(0)) != (b < T(0)) ? (T)(r + b) : r;
}
template <class T> RG_FN T rg_Neg(T x) {
    if constexpr (rg_real<T>) return -x;
    else return (T)(0 - (rg_u64)x);
}
template <class T> RG_FN T rg_Abs(T x) {
    if constexpr (rg_real<T>) return m_fabs(x);
    else return x < T(0) ? rg_Neg(x) : x;
}
template <class T> RG_FN T rg_Not(T x) { return (T)(x == T(0)); }
template <class T> RG_FN T rg_BitNot(T x) { return (T)~(rg_u64)x; }
template <class T> RG_FN T rg_Sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }
template <class T> RG_FN T rg_Relu(T x) { return x < T(0) ? T(0) : x; }
template <class T> RG_FN T rg_Min(T a, T b) { return a != a || a < b ? a : b; }
template <class T> RG_FN T rg_Max(T a, T b) { return a != a || a > b ? a : b; }
template <class T> RG_FN T rg_PRelu(T a, T b) { return a < T(0) ? rg_Mul(a, b) : a; }
template <class T> RG_FN T rg_Where(bool c, T a, T b) { return c ? a : b; }
template <class T> RG_FN T rg_Clip(T x, T low, T high) { return rg_Min(rg_Max(x, low), high); }
template <class T> RG_FN T rg_Fma(T a, T b, T c) {
    if constexpr (rg_real<T>) return m_fma(a, b, c);
    else return rg_Add(rg_Mul(a, b), c);
}
template <class T, class U> RG_FN T rg_Pow(T a, U b) {
    if constexpr (rg_real<T>) {
        return m_pow(a, (T)b);
    } else if constexpr (rg_real<U>) {
        return rg_int<T>(m_pow((double)a, (double)b));
    } else {
        if (b < U(0)) return a == T(1) ? T(1) : rg_signed<T> && a == T(-1) ? (b % 2 ? T(-1) : T(1)) : T(0);
        rg_u64 base = (rg_u64)a, result = 1;
        for (rg_u64 n = (rg_u64)b; n; n >>= 1, base *= base)
            if (n & 1) result *= base;
        return (T)result;
    }
}
#define RG_BINARY(name, type, expression) template <class T> RG_FN type rg_##name(T a, T b) { return (type)(expression); }
RG_BINARY(And, T, a && b) RG_BINARY(Or, T, a || b) RG_BINARY(Xor, T, (a != T(0)) != (b != T(0)))
RG_BINARY(BitAnd, T, a & b) RG_BINARY(BitOr, T, a | b) RG_BINARY(BitXor, T, a ^ b)
RG_BINARY(Equal, bool, a == b) RG_BINARY(Less, bool, a < b) RG_BINARY(LessEqual, bool, a <= b)
RG_BINARY(Greater, bool, a > b) RG_BINARY(GreaterEqual, bool, a >= b)
template <class T> RG_FN bool rg_shifts(T b) { return !(b < T(0)) && (rg_u64)b < sizeof(T) * 8; }
template <class T> RG_FN T rg_ShiftLeft(T a, T b) { return rg_shifts(b) ? (T)((rg_u64)a << (rg_u64)b) : T(0); }
template <class T> RG_FN T rg_ShiftRight(T a, T b) { return rg_shifts(b) ? (T)(a >> b) : a < T(0) ? T(-1) : T(0); }

template <class T> RG_FN T m_sigmoid(T x) { return T(1) / (T(1) + m_exp(-x)); }
template <class T> RG_FN T m_softplus(T x) { return x != x ? x : (x > T(0) ? x : T(0)) + m_log1p(m_exp(-m_fabs(x))); }
template <class T> RG_FN T m_unit(T x) { return x < T(0) ? T(0) : x > T(1) ? T(1) : x; }
#define RG_UNARY(name, expression) template <class T> RG_FN T rg_##name(T x) { return expression; }
RG_UNARY(Floor, m_floor(x)) RG_UNARY(Ceil, m_ceil(x)) RG_UNARY(Round, m_rint(x)) RG_UNARY(Sqrt, m_sqrt(x))
RG_UNARY(Rsqrt, T(1) / m_sqrt(x)) RG_UNARY(Reciprocal, T(1) / x) RG_UNARY(Exp, m_exp(x)) RG_UNARY(Log, m_log(x))
RG_UNARY(Erf, m_erf(x)) RG_UNARY(Sin, m_sin(x)) RG_UNARY(Cos, m_cos(x)) RG_UNARY(Tan, m_tan(x))
RG_UNARY(Asin, m_asin(x)) RG_UNARY(Acos, m_acos(x)) RG_UNARY(Atan, m_atan(x)) RG_UNARY(Sinh, m_sinh(x))
RG_UNARY(Cosh, m_cosh(x)) RG_UNARY(Tanh, m_tanh(x)) RG_UNARY(Asinh, m_asinh(x)) RG_UNARY(Acosh, m_acosh(x))
RG_UNARY(Atanh, m_atanh(x)) RG_UNARY(Sigmoid, m_sigmoid(x)) RG_UNARY(Silu, x * m_sigmoid(x))
RG_UNARY(Softplus, m_softplus(x)) RG_UNARY(Softsign, x / (T(1) + m_fabs(x))) RG_UNARY(Mish, x * m_tanh(m_softplus(x)))
RG_UNARY(GeluErf, T(0.5) * x * (T(1) + m_erf(x * T(0.70710678118654752))))
RG_UNARY(GeluTanh, T(0.5) * x * (T(1) + m_tanh(T(0.79788456080286536) * (x + T(0.044715) * x * x * x))))
RG_UNARY(HardSwish, x * m_unit(x / T(6) + T(0.5)))
template <class T> RG_FN bool rg_IsNan(T x) { return x != x; }
template <class T> RG_FN bool rg_IsInf(T x, float positive, float negative) {
    return (positive != 0 && x == (T)rg_f32(0x7f800000u)) || (negative != 0 && x == (T)rg_f32(0xff800000u));
}
#define RG_PARAMETERS(name, expression) \
    template <class T> RG_FN T rg_##name(T x, float alpha, float beta) { T a = alpha, b = beta; (void)a; (void)b; return expression; }
RG_PARAMETERS(LeakyRelu, x < T(0) ? a * x : x) RG_PARAMETERS(Elu, x < T(0) ? a * m_expm1(x) : x)
RG_PARAMETERS(Selu, x > T(0) ? b * x : b * a * m_expm1(x)) RG_PARAMETERS(Celu, x < T(0) ? a * m_expm1(x / a) : x)
RG_PARAMETERS(HardSigmoid, m_unit(a * x + b)) RG_PARAMETERS(ThresholdedRelu, x > a ? x : T(0))
RG_PARAMETERS(Shrink, x < -a ? x + b : x > a ? x - b : T(0))
)cuda";

}  // namespace refactor::kernel::cuda
