#pragma once
#include <cstdint>

namespace refactor::kernel {

enum class MathFunction { Exp, ExpOfNegative, Exp2OfNegative, Log, Sigmoid, Tanh, Erf, GeluErf, GeluTanh };

/// Applies a function of `math.h` to `count` (a multiple of 16) floats; entry points of the test alone.
void math_probe_avx2(MathFunction, float const* x, float* y, int64_t count);
void math_probe_avx512(MathFunction, float const* x, float* y, int64_t count);
/// Transposes a 16 × 16 (8 × 8) block.
void transpose_probe_avx2(float const* x, float* y);
void transpose_probe_avx512(float const* x, float* y);

}  // namespace refactor::kernel
