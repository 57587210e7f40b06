#pragma once
// Include a `simd/vec_*.h` first. Internal linkage.

namespace refactor::kernel {
namespace {

/// Vectors that a function goes through in step. Functions are long chains of dependent instructions, and a core's
/// schedulers (Zen 3: 64 entries) hold two or three vectors of them one behind the other; four side by side fill its
/// pipelines. The functions of `simd/math.h` that are templates take a `Pack` as well as a `Vec`.
struct Pack {
    static constexpr int kVectors = 32 / Vec::width, width = 32;
    Vec v[kVectors];

    RG_SIMD static Pack set(float x) {
        return each([=](int) __attribute__((always_inline)) { return Vec::set(x); });
    }
    RG_SIMD static Pack load(float const* p) {
        return each([=](int i) __attribute__((always_inline)) { return Vec::load(p + i * Vec::width); });
    }
    RG_SIMD void store(float* p) const {
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) v[i].store(p + i * Vec::width);
    }
    template <class F>
    RG_SIMD static Pack each(F const& f) {
        Pack result;
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) result.v[i] = f(i);
        return result;
    }
};

#define RG_PACK_UNARY(name)                                                                    \
    RG_SIMD Pack name(Pack a) {                                                                \
        return Pack::each([&](int i) __attribute__((always_inline)) { return name(a.v[i]); }); \
    }
#define RG_PACK_BINARY(name)                                                                           \
    RG_SIMD Pack name(Pack a, Pack b) {                                                                \
        return Pack::each([&](int i) __attribute__((always_inline)) { return name(a.v[i], b.v[i]); }); \
    }
#define RG_PACK_TERNARY(name)                                                                                  \
    RG_SIMD Pack name(Pack a, Pack b, Pack c) {                                                                \
        return Pack::each([&](int i) __attribute__((always_inline)) { return name(a.v[i], b.v[i], c.v[i]); }); \
    }
RG_PACK_UNARY(abs)
RG_PACK_UNARY(power_of_low_bits)
RG_PACK_BINARY(operator+)
RG_PACK_BINARY(operator-)
RG_PACK_BINARY(operator*)
RG_PACK_BINARY(operator/)
RG_PACK_BINARY(max)
RG_PACK_BINARY(min)
RG_PACK_BINARY(bit_and)
RG_PACK_BINARY(bit_or)
RG_PACK_TERNARY(fma)
RG_PACK_TERNARY(fnma)
RG_PACK_TERNARY(zero_where_less)
RG_PACK_TERNARY(scale2_of_low_bits)
#undef RG_PACK_UNARY
#undef RG_PACK_BINARY
#undef RG_PACK_TERNARY

}  // namespace
}  // namespace refactor::kernel
