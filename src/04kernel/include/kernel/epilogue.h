#pragma once
#include <cstdint>
#include <string>

namespace refactor::kernel {

enum class ActivationKind : uint8_t {
    None,
    Relu,
    Clip,       ///< min(max(x, alpha), beta)
    LeakyRelu,  ///< x < 0 ? alpha * x : x
    Sigmoid,
    Silu,         ///< x * sigmoid(x)
    HardSigmoid,  ///< min(max(alpha * x + beta, 0), 1)
    HardSwish,    ///< alpha * x * min(max(x / 6 + 0.5, 0), 1) + beta
    GeluErf,      ///< 0.5 x (1 + erf(x / sqrt 2))
    GeluTanh,     ///< 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³)))
    Tanh,
};

struct Activation {
    ActivationKind kind = ActivationKind::None;
    float alpha = 0, beta = 0;
    bool operator==(Activation const&) const = default;
};

/// What a product or convolution does to its accumulators before storing them:
/// `y = act(x + bias + residual)`, or `y = act(x + bias) + residual` if `residual_last`.
struct Epilogue {
    Activation activation;
    bool bias = false;      ///< an input holds one value per output channel (convolution) or column (product)
    bool residual = false;  ///< an input has the shape and layout of the output
    bool residual_last = false;
    bool operator==(Epilogue const&) const = default;
};

/// Canonical text, e.g. "bias+relu"; empty if nothing is done.
std::string to_string(Epilogue const&);
/// Scalar definition of every activation: the reference for all kernels.
float apply(Activation const&, float x);

}  // namespace refactor::kernel
