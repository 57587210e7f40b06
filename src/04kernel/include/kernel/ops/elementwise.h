#pragma once
#include "kernel/kernel.h"

#include <array>

namespace refactor::kernel {

/// Instructions of an Expression program. Operand types are those of the registers; arithmetic is done in the
/// register's type (f16, bf16 and f8 in f32, rounded after each instruction unless fused away by the compiler's
/// options).
enum class ExprOp : uint8_t {
    Input,     ///< register = input `immediate_index`, broadcast
    Constant,  ///< register = `value`
    Cast,
    // unary
    Abs,
    Neg,
    Not,
    BitNot,
    Sign,
    Floor,
    Ceil,
    Round,
    Sqrt,
    Rsqrt,
    Reciprocal,
    Exp,
    Log,
    Erf,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Sigmoid,
    Relu,
    Silu,
    Softplus,
    Softsign,
    Mish,
    GeluErf,
    GeluTanh,
    HardSwish,
    IsNan,
    IsInf,
    // unary with parameters alpha, beta
    LeakyRelu,
    Elu,
    Selu,
    Celu,
    HardSigmoid,
    ThresholdedRelu,
    Shrink,
    // binary
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Mod,
    Fmod,
    Min,
    Max,
    PRelu,
    And,
    Or,
    Xor,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    // ternary
    Where,  ///< a ? b : c
    Clip,   ///< min(max(a, b), c)
    Fma,    ///< a * b + c
};
/// Number of register operands.
int arity_of(ExprOp);
std::string_view name_of(ExprOp);

struct ExprInstruction {
    ExprOp op{};
    DataType dtype{};                    ///< type of the result
    std::array<uint16_t, 3> operands{};  ///< indices of earlier instructions; the input number for Input
    float alpha = 0, beta = 0;           ///< parameters; IsInf: alpha ≠ 0 detects +inf, beta ≠ 0 detects -inf
    double value = 0;                    ///< Constant (integers beyond 2^53 are in `integer`)
    int64_t integer = 0;
    bool operator==(ExprInstruction const&) const = default;
};

/// A chain of elementwise operators as one program in SSA form; the results are the last value(s) named in `outputs`.
/// All inputs broadcast to the output's shape (numpy rules); every output has that shape. Evaluated tile by tile, so
/// any chain is one pass over memory.
///
/// Outputs may be Blocked, all alike. Inputs beside them are of the same layout, with any axes but the channels
/// repeated; or of any layout with one position ([N,C,1,1], and [C,1,1] if Plain); or Plain with one channel, or a
/// scalar. What is computed of bf16 in f32 is loaded and stored by the steps that compute, on processors with
/// AVX512-BF16.
struct ElementwiseInfo {
    static constexpr char const* kType = "Elementwise";
    std::vector<ExprInstruction> code;
    std::vector<uint16_t> outputs;
    std::string attributes() const;
};
Candidates candidates(ElementwiseInfo const&, Request const&);

}  // namespace refactor::kernel
