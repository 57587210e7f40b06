#include "elementwise/elementwise.h"

#include "cuda/kernels.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace refactor::kernel {

namespace {

constexpr std::string_view kNames[] = {"Input",       "Constant",
                                       "Cast",        "Abs",
                                       "Neg",         "Not",
                                       "BitNot",      "Sign",
                                       "Floor",       "Ceil",
                                       "Round",       "Sqrt",
                                       "Rsqrt",       "Reciprocal",
                                       "Exp",         "Log",
                                       "Erf",         "Sin",
                                       "Cos",         "Tan",
                                       "Asin",        "Acos",
                                       "Atan",        "Sinh",
                                       "Cosh",        "Tanh",
                                       "Asinh",       "Acosh",
                                       "Atanh",       "Sigmoid",
                                       "Relu",        "Silu",
                                       "Softplus",    "Softsign",
                                       "Mish",        "GeluErf",
                                       "GeluTanh",    "HardSwish",
                                       "IsNan",       "IsInf",
                                       "LeakyRelu",   "Elu",
                                       "Selu",        "Celu",
                                       "HardSigmoid", "ThresholdedRelu",
                                       "Shrink",      "Add",
                                       "Sub",         "Mul",
                                       "Div",         "Pow",
                                       "Mod",         "Fmod",
                                       "Min",         "Max",
                                       "PRelu",       "And",
                                       "Or",          "Xor",
                                       "BitAnd",      "BitOr",
                                       "BitXor",      "ShiftLeft",
                                       "ShiftRight",  "Equal",
                                       "Less",        "LessEqual",
                                       "Greater",     "GreaterEqual",
                                       "Where",       "Clip",
                                       "Fma"};
static_assert(std::size(kNames) == static_cast<size_t>(ExprOp::Fma) + 1);

/// Hexadecimal bits: short, exact, and the same for equal values only.
template <class T>
std::string bits(T value) {
    char text[20];
    std::snprintf(text, sizeof(text), "%llx", static_cast<unsigned long long>(value));
    return text;
}

}  // namespace

int arity_of(ExprOp op) {
    if (op <= ExprOp::Constant) return 0;
    if (op <= ExprOp::Shrink) return 1;
    return op <= ExprOp::GreaterEqual ? 2 : 3;
}

std::string_view name_of(ExprOp op) { return kNames[static_cast<size_t>(op)]; }

std::string ElementwiseInfo::attributes() const {
    std::string text;
    for (size_t i = 0; i < code.size(); ++i) {
        auto const& c = code[i];
        text += "%" + std::to_string(i) + "=" + std::string(name_of(c.op)) + ":" + std::string(name_of(c.dtype));
        auto operands = c.op == ExprOp::Input ? 1 : arity_of(c.op);
        for (int k = 0; k < operands; ++k)
            text += (k ? "," : "(") + std::string(c.op == ExprOp::Input ? "" : "%") + std::to_string(c.operands[k]);
        if (operands) text += ")";
        if (c.op == ExprOp::Constant)
            text += "(" + bits(std::bit_cast<uint64_t>(c.value)) + "," + std::to_string(c.integer) + ")";
        if (c.alpha != 0 || c.beta != 0)
            text += "[" + bits(std::bit_cast<uint32_t>(c.alpha)) + "," + bits(std::bit_cast<uint32_t>(c.beta)) + "]";
        text += ";";
    }
    for (size_t i = 0; i < outputs.size(); ++i) text += (i ? ",%" : "->%") + std::to_string(outputs[i]);
    return text;
}

Candidates candidates(ElementwiseInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("elementwise:nvidia:nvrtc", cuda::elementwise_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "elementwise/elementwise_kernels.inc"
#undef RG_KERNEL
    return result;
}

}  // namespace refactor::kernel
