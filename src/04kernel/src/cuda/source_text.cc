#include "cuda/source_text.h"

#include <bit>
#include <cstdio>

namespace refactor::kernel::cuda {

char const* const kArgumentSource = R"cuda(
#ifdef RG_HOST
#define RG_ARGUMENT const
#else
#define RG_ARGUMENT const __grid_constant__
#endif
)cuda";

char const* const kElementSource = R"cuda(
#ifdef RG_HOST
RG_FN float rg_mad(float x, float y, float z) { return x * y + z; }
RG_FN double rg_mad(double x, double y, double z) { return x * y + z; }
#else
RG_FN float rg_mad(float x, float y, float z) { return fmaf(x, y, z); }
RG_FN double rg_mad(double x, double y, double z) { return fma(x, y, z); }
#endif
template <class T> RG_FN T rg_mad(T x, T y, T z) { return rg_Add(rg_Mul(x, y), z); }

template <class T> RG_FN T rg_load(T x) { return x; }
RG_FN float rg_load(rg_f16 x) { return rg_from_f16(x.bits); }
RG_FN float rg_load(rg_bf16 x) { return rg_from_bf16(x.bits); }
// Below 16 bits, weights only. The magnitude of e4m3 as bits of a float is 2^120 times too small, also if it is subnormal;
// e5m2 is the upper half of an f16.
struct rg_f8_e4m3 { unsigned char bits; };
struct rg_f8_e5m2 { unsigned char bits; };
RG_FN float rg_load(rg_f8_e4m3 x) {
    const unsigned magnitude = x.bits & 127u;
    const float value = rg_f32((x.bits & 128u) << 24 | magnitude << 20) * rg_f32(0x7b800000u);
    return magnitude == 127u ? rg_f32(0x7fc00000u) : value;
}
RG_FN float rg_load(rg_f8_e5m2 x) { return rg_from_f16((unsigned short)(x.bits << 8)); }
// Small numbers as the mantissa of a float: conversions have an eighth of the throughput.
RG_FN float rg_small(unsigned below_2_23) { return rg_f32(0x4b000000u | below_2_23) - 8388608.f; }
RG_FN float rg_load(signed char x) { return rg_f32(0x4b000000u | ((unsigned char)x ^ 0x80u)) - 8388736.f; }
template <class T> RG_FN void rg_store(T& y, T x) { y = x; }
RG_FN void rg_store(rg_f16& y, float x) { y.bits = rg_to_f16(x); }
RG_FN void rg_store(rg_bf16& y, float x) { y.bits = rg_to_bf16(x); }
)cuda";

char const* element_text(DataType type) {
    switch (type) {
        case DataType::F32:
            return "float";
        case DataType::F64:
            return "double";
        case DataType::F16:
            return "rg_f16";
        case DataType::BF16:
            return "rg_bf16";
        case DataType::I8:
            return "signed char";
        case DataType::U8:
            return "unsigned char";
        case DataType::I16:
            return "short";
        case DataType::U16:
            return "unsigned short";
        case DataType::I32:
            return "int";
        case DataType::U32:
            return "unsigned";
        case DataType::I64:
            return "rg_i64";
        case DataType::U64:
            return "rg_u64";
        case DataType::Bool:
            return "bool";
        default:
            return nullptr;
    }
}

char const* sum_text(DataType type) {
    return type == DataType::F16 || type == DataType::BF16 ? "float" : element_text(type);
}

namespace {

/// The call of an operator of the prelude on `x`; empty if nothing is done.
std::string activation_call(Activation const& activation) {
    auto constant = [](float value) {
        char text[32];
        std::snprintf(text, sizeof text, "rg_f32(0x%xu)", std::bit_cast<uint32_t>(value));
        return std::string(text);
    };
    auto parameters = ", " + constant(activation.alpha) + ", " + constant(activation.beta) + ")";
    switch (activation.kind) {
        case ActivationKind::Relu:
            return "rg_Relu(x)";
        case ActivationKind::Clip:
            return "rg_Clip(x, (Sum)" + constant(activation.alpha) + ", (Sum)" + constant(activation.beta) + ")";
        case ActivationKind::LeakyRelu:
            return "rg_LeakyRelu(x" + parameters;
        case ActivationKind::Sigmoid:
            return "rg_Sigmoid(x)";
        case ActivationKind::Silu:
            return "rg_Silu(x)";
        case ActivationKind::HardSigmoid:
            return "rg_HardSigmoid(x" + parameters;
        case ActivationKind::HardSwish:
            return "(Sum)" + constant(activation.alpha) + " * rg_HardSwish(x) + (Sum)" + constant(activation.beta);
        case ActivationKind::GeluErf:
            return "rg_GeluErf(x)";
        case ActivationKind::GeluTanh:
            return "rg_GeluTanh(x)";
        case ActivationKind::Tanh:
            return "rg_Tanh(x)";
        case ActivationKind::None:
            break;
    }
    return {};
}

}  // namespace

std::string activation_source(Activation const& activation, std::string const& name) {
    auto call = activation_call(activation);
    return "RG_FN Sum " + name + "(Sum x) { return " + (call.empty() ? "x" : call) + "; }\n";
}

}  // namespace refactor::kernel::cuda
