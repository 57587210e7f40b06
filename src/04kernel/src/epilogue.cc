#include "kernel/epilogue.h"

#include <charconv>
#include <cmath>
#include <string_view>

namespace refactor::kernel {

namespace {

std::string_view name_of(ActivationKind kind) {
    using enum ActivationKind;
    switch (kind) {
        case None:
            return "";
        case Relu:
            return "relu";
        case Clip:
            return "clip";
        case LeakyRelu:
            return "leaky_relu";
        case Sigmoid:
            return "sigmoid";
        case Silu:
            return "silu";
        case HardSigmoid:
            return "hard_sigmoid";
        case HardSwish:
            return "hard_swish";
        case GeluErf:
            return "gelu_erf";
        case GeluTanh:
            return "gelu_tanh";
        case Tanh:
            return "tanh";
    }
    return "";
}

/// Shortest text that reads back as the same float.
std::string text_of(float x) {
    char buffer[32];
    auto end = std::to_chars(buffer, buffer + sizeof buffer, x).ptr;
    return {buffer, end};
}

bool has_beta(Activation const& act) {
    using enum ActivationKind;
    return act.kind == Clip || act.kind == HardSigmoid || (act.kind == HardSwish && (act.alpha != 1 || act.beta != 0));
}
bool has_alpha(Activation const& act) { return has_beta(act) || act.kind == ActivationKind::LeakyRelu; }

}  // namespace

std::string to_string(Epilogue const& epilogue) {
    std::string text;
    auto part = [&](std::string_view name) {
        if (!text.empty()) text += '+';
        text += name;
    };
    auto const& act = epilogue.activation;
    if (epilogue.bias) part("bias");
    if (epilogue.residual && !epilogue.residual_last) part("residual");
    if (act.kind != ActivationKind::None) {
        part(name_of(act.kind));
        if (has_alpha(act)) text += "(" + text_of(act.alpha) + (has_beta(act) ? "," + text_of(act.beta) : "") + ")";
    }
    if (epilogue.residual && epilogue.residual_last) part("residual");
    return text;
}

float apply(Activation const& act, float x) {
    using enum ActivationKind;
    auto sigmoid = [](float v) { return 1 / (1 + std::exp(-v)); };
    // Ordered so that NaN stays NaN.
    auto clamp = [](float v, float low, float high) { return v < low ? low : v > high ? high : v; };
    switch (act.kind) {
        case None:
            return x;
        case Relu:
            return x < 0 ? 0 : x;
        case Clip:
            return clamp(clamp(x, act.alpha, INFINITY), -INFINITY, act.beta);
        case LeakyRelu:
            return x < 0 ? act.alpha * x : x;
        case Sigmoid:
            return sigmoid(x);
        case Silu:
            return x * sigmoid(x);
        case HardSigmoid:
            return clamp(act.alpha * x + act.beta, 0, 1);
        case HardSwish:
            return act.alpha * (x * clamp(x / 6 + 0.5f, 0, 1)) + act.beta;
        case GeluErf:
            return 0.5f * x * (1 + std::erf(x * 0.70710678118654752f));
        case GeluTanh:
            return 0.5f * x * (1 + std::tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
        case Tanh:
            return std::tanh(x);
    }
    return x;
}

}  // namespace refactor::kernel
