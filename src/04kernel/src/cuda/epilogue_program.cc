#include "cuda/epilogue_program.h"

#include <optional>

namespace refactor::kernel::cuda {

namespace {

std::optional<ExprOp> expression_of(ActivationKind kind) {
    switch (kind) {
        case ActivationKind::Relu:
            return ExprOp::Relu;
        case ActivationKind::Clip:
            return ExprOp::Clip;
        case ActivationKind::LeakyRelu:
            return ExprOp::LeakyRelu;
        case ActivationKind::Sigmoid:
            return ExprOp::Sigmoid;
        case ActivationKind::Silu:
            return ExprOp::Silu;
        case ActivationKind::HardSigmoid:
            return ExprOp::HardSigmoid;
        case ActivationKind::HardSwish:
            return ExprOp::HardSwish;
        case ActivationKind::GeluErf:
            return ExprOp::GeluErf;
        case ActivationKind::GeluTanh:
            return ExprOp::GeluTanh;
        case ActivationKind::Tanh:
            return ExprOp::Tanh;
        case ActivationKind::None:
            break;
    }
    return std::nullopt;
}

}  // namespace

ElementwiseInfo program_of(Epilogue const& epilogue, DataType dtype) {
    ElementwiseInfo info;
    auto emit = [&](ExprInstruction const& code) {
        info.code.push_back(code);
        return static_cast<uint16_t>(info.code.size() - 1);
    };
    auto constant = [&](float value) {
        ExprInstruction code{ExprOp::Constant, dtype};
        code.value = static_cast<double>(value);
        return emit(code);
    };
    uint16_t next = 0;
    auto input = [&] {
        ExprInstruction code{ExprOp::Input, dtype};
        code.operands[0] = next++;
        return emit(code);
    };
    auto value = input();
    if (epilogue.bias) {
        auto bias = input();
        value = emit({ExprOp::Add, dtype, {value, bias}});
    }
    auto add_residual = [&] {
        auto residual = input();
        value = emit({ExprOp::Add, dtype, {value, residual}});
    };
    if (epilogue.residual && !epilogue.residual_last) add_residual();
    if (auto op = expression_of(epilogue.activation.kind)) {
        ExprInstruction code{*op, dtype, {value}, epilogue.activation.alpha, epilogue.activation.beta};
        if (*op == ExprOp::Clip)
            code.operands[1] = constant(epilogue.activation.alpha),
            code.operands[2] = constant(epilogue.activation.beta);
        value = emit(code);
        if (*op == ExprOp::HardSwish) {
            auto alpha = constant(epilogue.activation.alpha), beta = constant(epilogue.activation.beta);
            if (epilogue.activation.alpha != 1) value = emit({ExprOp::Mul, dtype, {value, alpha}});
            if (epilogue.activation.beta != 0) value = emit({ExprOp::Add, dtype, {value, beta}});
        }
    }
    if (epilogue.residual && epilogue.residual_last) add_residual();
    info.outputs = {value};
    return info;
}

}  // namespace refactor::kernel::cuda
