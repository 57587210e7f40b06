#pragma once
#include "simd/math.h"
#include "simd/math_probe.h"

namespace refactor::kernel {
namespace {

Vec probe(MathFunction f, Vec x) {
    switch (f) {
        case MathFunction::Exp:
            return exp(x);
        case MathFunction::ExpOfNegative:
            return exp_of_negative(min(Vec::zero(), x));
        case MathFunction::Exp2OfNegative:
            return exp2_of_negative(min(Vec::zero(), x));
        case MathFunction::Log:
            return log(x);
        case MathFunction::Sigmoid:
            return sigmoid(x);
        case MathFunction::Tanh:
            return tanh(x);
        case MathFunction::Erf:
            return erf(x);
        case MathFunction::GeluErf:
            return gelu_erf(x);
        case MathFunction::GeluTanh:
            return gelu_tanh(x);
    }
    return x;
}

void probe_all(MathFunction f, float const* x, float* y, int64_t count) {
    for (int64_t i = 0; i < count; i += Vec::width) probe(f, Vec::load(x + i)).store(y + i);
}

void transpose_all(float const* x, float* y) {
    Vec r[Vec::width];
    for (int i = 0; i < Vec::width; ++i) r[i] = Vec::load(x + i * Vec::width);
    transpose(r);
    for (int i = 0; i < Vec::width; ++i) r[i].store(y + i * Vec::width);
}

}  // namespace
}  // namespace refactor::kernel
