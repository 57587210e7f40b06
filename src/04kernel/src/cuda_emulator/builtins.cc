#include "cuda_emulator/builtins.h"

namespace refactor::cuda_emulator {

// Blocks run one after another, so what they share may be static. Barriers go through `rg_grid`, which the emulator
// sets after loading (struct Grid of grid.h).
char const* const kBuiltins = R"cuda(
#define RG_HOST
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define memcpy __builtin_memcpy
#define __restrict__ __restrict
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __syncthreads() rg_grid->wait_for_block()
#define __syncwarp(...) rg_wait_for_warp(__VA_ARGS__)
#define __threadfence()
#define __threadfence_block()
// Of the C library, whose headers would take longer than most kernels.
#define RG_REAL(name) extern "C" double name(double); extern "C" float name##f(float);
#define RG_REAL2(name) extern "C" double name(double, double); extern "C" float name##f(float, float);
RG_REAL(fabs) RG_REAL(floor) RG_REAL(ceil) RG_REAL(rint) RG_REAL(nearbyint) RG_REAL(round) RG_REAL(trunc) RG_REAL(sqrt)
RG_REAL(cbrt) RG_REAL(exp) RG_REAL(exp2) RG_REAL(expm1) RG_REAL(log) RG_REAL(log2) RG_REAL(log10) RG_REAL(log1p)
RG_REAL(erf) RG_REAL(erfc) RG_REAL(tgamma) RG_REAL(lgamma) RG_REAL(sin) RG_REAL(cos) RG_REAL(tan) RG_REAL(asin)
RG_REAL(acos) RG_REAL(atan) RG_REAL(sinh) RG_REAL(cosh) RG_REAL(tanh) RG_REAL(asinh) RG_REAL(acosh) RG_REAL(atanh)
RG_REAL2(atan2) RG_REAL2(copysign) RG_REAL2(fmax) RG_REAL2(fmin) RG_REAL2(fmod) RG_REAL2(hypot) RG_REAL2(pow)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
extern "C" double ldexp(double, int);
extern "C" float ldexpf(float, int);
extern "C" int abs(int) noexcept;
template <class T> static inline bool isnan(T x) { return x != x; }
template <class T> static inline bool isinf(T x) { return x - x != 0 && x == x; }
template <class T> static inline bool isfinite(T x) { return x - x == 0; }
template <class T> static inline bool signbit(T x) { return __builtin_signbit(x); }
struct rg_unit { unsigned x, y = 1, z = 1; };
struct rg_grid_state {
    rg_unit thread, block, threads, blocks;
    void (*wait_for_block)();
    void (*wait_for_warp)(unsigned lanes);
    void (*wait_for_cluster)();
    void* (*in_block)(void* address, unsigned block);
    unsigned long long exchange[1024];
};
extern "C" rg_grid_state* rg_grid = nullptr;
#define threadIdx (rg_grid->thread)
#define blockIdx (rg_grid->block)
#define blockDim (rg_grid->threads)
#define gridDim (rg_grid->blocks)
#define warpSize 32
// Of the recurrent kernels.
#define RG_CLUSTER(blocks)
static inline void rg_wait_for_cluster() { rg_grid->wait_for_cluster(); }
static inline void rg_store_in_block(float* p, unsigned block, float x) { *(float*)rg_grid->in_block(p, block) = x; }
static inline void rg_wait_for_warp(unsigned lanes = 0xffffffffu) { rg_grid->wait_for_warp(lanes); }
template <class T> static inline T rg_shuffle(unsigned lanes, T value, unsigned source, bool inside) {
    static_assert(sizeof(T) <= 8);
    auto self = threadIdx.x;
    __builtin_memcpy(&rg_grid->exchange[self], &value, sizeof(T));
    rg_wait_for_warp(lanes);
    T result = value;
    if (inside && (self & ~31u) + source < blockDim.x)
        __builtin_memcpy(&result, &rg_grid->exchange[(self & ~31u) + source], sizeof(T));
    rg_wait_for_warp(lanes);
    return result;
}
template <class T> static inline T __shfl_sync(unsigned lanes, T value, int source, int width = 32) {
    unsigned lane = threadIdx.x & 31;
    return rg_shuffle(lanes, value, (lane & ~(width - 1)) + (source & (width - 1)), true);
}
template <class T> static inline T __shfl_xor_sync(unsigned lanes, T value, int mask, int width = 32) {
    unsigned lane = threadIdx.x & 31, source = lane ^ mask;
    return rg_shuffle(lanes, value, source & 31, source / width <= lane / width);
}
template <class T> static inline T __shfl_down_sync(unsigned lanes, T value, unsigned delta, int width = 32) {
    unsigned lane = threadIdx.x & 31;
    return rg_shuffle(lanes, value, lane + delta, (lane & (width - 1)) + delta < (unsigned)width);
}
template <class T> static inline T __shfl_up_sync(unsigned lanes, T value, unsigned delta, int width = 32) {
    unsigned lane = threadIdx.x & 31;
    return rg_shuffle(lanes, value, lane - delta, (lane & (width - 1)) >= delta);
}
static inline unsigned __ballot_sync(unsigned lanes, int predicate) {
    auto self = threadIdx.x;
    rg_grid->exchange[self] = predicate != 0;
    rg_wait_for_warp(lanes);
    unsigned result = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
        if (lanes >> lane & 1 && (self & ~31u) + lane < blockDim.x)
            result |= (unsigned)rg_grid->exchange[(self & ~31u) + lane] << lane;
    rg_wait_for_warp(lanes);
    return result;
}
static inline int __any_sync(unsigned lanes, int predicate) { return __ballot_sync(lanes, predicate) != 0; }
static inline int __all_sync(unsigned lanes, int predicate) { return __ballot_sync(lanes, !predicate) == 0; }

template <class T> static inline T atomicAdd(T* p, T v) { T old = *p; *p = old + v; return old; }
template <class T> static inline T atomicSub(T* p, T v) { T old = *p; *p = old - v; return old; }
template <class T> static inline T atomicMax(T* p, T v) { T old = *p; if (v > old) *p = v; return old; }
template <class T> static inline T atomicMin(T* p, T v) { T old = *p; if (v < old) *p = v; return old; }
template <class T> static inline T atomicOr(T* p, T v) { T old = *p; *p = old | v; return old; }
template <class T> static inline T atomicAnd(T* p, T v) { T old = *p; *p = old & v; return old; }
template <class T> static inline T atomicExch(T* p, T v) { T old = *p; *p = v; return old; }
template <class T> static inline T atomicCAS(T* p, T expected, T v) { T old = *p; if (old == expected) *p = v; return old; }

template <class T> static inline T __ldg(T const* p) { return *p; }
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }
static inline float __uint_as_float(unsigned x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
static inline unsigned __float_as_uint(float x) { unsigned y; __builtin_memcpy(&y, &x, 4); return y; }
static inline float __int_as_float(int x) { return __uint_as_float((unsigned)x); }
static inline int __float_as_int(float x) { return (int)__float_as_uint(x); }
static inline double __longlong_as_double(long long x) { double y; __builtin_memcpy(&y, &x, 8); return y; }
static inline long long __double_as_longlong(double x) { long long y; __builtin_memcpy(&y, &x, 8); return y; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += (int)(signed char)(a >> 8 * i) * (signed char)(b >> 8 * i);
    return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
    return c;
}
// Of the integer kernels, whose text says how the lanes of a warp share the operands.
static unsigned rg_mma_room[32][32][6];
static inline void rg_mma_bytes(int (&c)[4], unsigned const (&a)[4], unsigned const (&b)[2]) {
    auto& warp = rg_mma_room[threadIdx.x / 32];
    unsigned lane = threadIdx.x % 32;
    for (int i = 0; i < 6; ++i) warp[lane][i] = i < 4 ? a[i] : b[i - 4];
    rg_wait_for_warp();
    for (unsigned i = 0; i < 4; ++i)
        for (unsigned word = 0; word < 8; ++word)
            c[i] = __dp4a((int)warp[lane / 4 * 4 + word % 4][i / 2 + word / 4 * 2],
                          (int)warp[(lane % 4 * 2 + i % 2) * 4 + word % 4][4 + word / 4], c[i]);
    rg_wait_for_warp();
}
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
#define __expf(x) expf((float)(x))
#define __logf(x) logf((float)(x))
#define __fdividef(x, y) ((float)(x) / (float)(y))
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }

// Of the prelude: f16 by the compiler's own conversions, which round to nearest even.
static inline float rg_from_f16(unsigned short x) { _Float16 y; __builtin_memcpy(&y, &x, 2); return (float)y; }
static inline unsigned short rg_to_f16(float x) { _Float16 y = (_Float16)x; unsigned short z; __builtin_memcpy(&z, &y, 2); return z; }
static inline unsigned short rg_to_bf16(float x) {
    unsigned bits = __float_as_uint(x);
    if (x != x) return (unsigned short)(bits >> 16 | 64);
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}
template <class A> static inline void rg_call(void (*kernel)(A), void const* argument) {
    A copy;
    __builtin_memcpy(&copy, argument, sizeof copy);
    kernel(copy);
}
template <class A> static constexpr unsigned long rg_argument_bytes(void (*)(A)) { return sizeof(A); }
)cuda";

}  // namespace refactor::cuda_emulator
