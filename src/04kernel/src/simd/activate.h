#pragma once
#include "kernel/epilogue.h"

// Activations of the epilogue on `Vec`; include `math.h` or `math_f64.h` first. The kind is a template parameter, so
// that the choice is made outside of the loop over elements; NaN stays NaN.

namespace refactor::kernel {
namespace {

template <ActivationKind kind>
RG_SIMD Vec activate(Vec x, [[maybe_unused]] Vec alpha, [[maybe_unused]] Vec beta) {
    using enum ActivationKind;
    if constexpr (kind == Relu) return max(Vec::zero(), x);
    if constexpr (kind == Clip) return min(beta, max(alpha, x));
    if constexpr (kind == LeakyRelu) return select(x < Vec::zero(), alpha * x, x);
    if constexpr (kind == Sigmoid) return sigmoid(x);
    if constexpr (kind == Silu) return x * sigmoid(x);
    if constexpr (kind == HardSigmoid) return hard_sigmoid(x, alpha, beta);
    if constexpr (kind == HardSwish)
        return fma(x * hard_sigmoid(x, Vec::set(Vec::Element(1) / 6), Vec::set(0.5f)), alpha, beta);
    if constexpr (kind == GeluErf) return gelu_erf(x);
    if constexpr (kind == GeluTanh) return gelu_tanh(x);
    if constexpr (kind == Tanh) return tanh(x);
    return x;
}

/// The same with the kind known at run time: one switch per vector.
RG_SIMD Vec activate(ActivationKind kind, Vec x, Vec alpha, Vec beta) {
    using enum ActivationKind;
    switch (kind) {
        case None:
            return x;
        case Relu:
            return activate<Relu>(x, alpha, beta);
        case Clip:
            return activate<Clip>(x, alpha, beta);
        case LeakyRelu:
            return activate<LeakyRelu>(x, alpha, beta);
        case Sigmoid:
            return activate<Sigmoid>(x, alpha, beta);
        case Silu:
            return activate<Silu>(x, alpha, beta);
        case HardSigmoid:
            return activate<HardSigmoid>(x, alpha, beta);
        case HardSwish:
            return activate<HardSwish>(x, alpha, beta);
        case GeluErf:
            return activate<GeluErf>(x, alpha, beta);
        case GeluTanh:
            return activate<GeluTanh>(x, alpha, beta);
        case Tanh:
            return activate<Tanh>(x, alpha, beta);
    }
    return x;
}

}  // namespace
}  // namespace refactor::kernel
