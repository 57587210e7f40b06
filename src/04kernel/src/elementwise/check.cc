#include "elementwise/program.h"

#include <optional>

namespace refactor::kernel::elementwise {

DataType register_type(DataType type) { return is_small_float(type) ? DataType::F32 : type; }

bool is_small_float(DataType type) {
    switch (type) {
        case DataType::F16:
        case DataType::BF16:
        case DataType::F8E4M3FN:
        case DataType::F8E4M3FNUZ:
        case DataType::F8E5M2:
        case DataType::F8E5M2FNUZ:
            return true;
        default:
            return false;
    }
}

namespace {

bool is_supported(DataType type) {
    if (is_small_float(type) || type == DataType::Bool) return true;
    if (type == DataType::F32 || type == DataType::F64) return true;
    return is_integer(type) && bits_of(type) >= 8;
}

bool is_comparison(ExprOp op) { return op >= ExprOp::Equal && op <= ExprOp::GreaterEqual; }

std::string text(DataType type) { return std::string(name_of(type)); }

/// What is wrong with the types of one instruction that is neither Input nor Constant.
std::optional<std::string> type_error(ElementwiseInfo const& info, ExprInstruction const& code) {
    auto arity = arity_of(code.op);
    auto type = [&](int i) { return info.code[code.operands[i]].dtype; };
    if (code.op == ExprOp::Cast) return std::nullopt;
    int first = code.op == ExprOp::Where ? 1 : 0;
    if (first && type(0) != DataType::Bool) return "condition of " + text(type(0)) + ", expected bool";
    for (int i = first + 1; i < arity; ++i)
        if (type(i) != type(first) && code.op != ExprOp::Pow)
            return "operands of " + text(type(first)) + " and " + text(type(i));
    bool to_bool = is_comparison(code.op) || code.op == ExprOp::IsNan || code.op == ExprOp::IsInf;
    auto expected = to_bool ? DataType::Bool : type(first);
    if (code.dtype != expected) return "result of " + text(code.dtype) + ", expected " + text(expected);
    return std::nullopt;
}

}  // namespace

std::optional<Rejection> check_expression(ElementwiseInfo const& info, Request const& request) {
    if (request.device != "cpu") return Rejection{"device " + std::string(request.device) + ", expected cpu"};
    if (info.code.size() > 4096) return Rejection{std::to_string(info.code.size()) + " instructions, at most 4096"};
    for (size_t i = 0; i < info.code.size(); ++i) {
        auto const& code = info.code[i];
        auto where = "instruction " + std::to_string(i) + " (" + std::string(name_of(code.op)) + "): ";
        if (!is_supported(code.dtype)) return Rejection{where + "dtype " + text(code.dtype)};
        if (code.op == ExprOp::Input) {
            if (code.operands[0] >= request.inputs.size())
                return Rejection{where + "input " + std::to_string(code.operands[0]) + " of " +
                                 std::to_string(request.inputs.size())};
            if (auto type = request.inputs[code.operands[0]].dtype; type != code.dtype)
                return Rejection{where + "input of " + text(type) + ", expected " + text(code.dtype)};
            continue;
        }
        for (int k = 0; k < arity_of(code.op); ++k)
            if (code.operands[k] >= i)
                return Rejection{where + "operand " + std::to_string(code.operands[k]) + " is not earlier"};
        if (code.op == ExprOp::Constant) continue;
        if (auto error = type_error(info, code)) return Rejection{where + *error};
    }
    if (info.outputs.empty() || info.outputs.size() != request.outputs.size())
        return Rejection{std::to_string(request.outputs.size()) + " outputs, expected " +
                         std::to_string(info.outputs.size())};
    for (size_t i = 0; i < info.outputs.size(); ++i) {
        if (info.outputs[i] >= info.code.size()) return Rejection{"output " + std::to_string(i) + " is no instruction"};
        auto type = info.code[info.outputs[i]].dtype;
        if (request.outputs[i].dtype != type)
            return Rejection{"output " + std::to_string(i) + " of " + text(request.outputs[i].dtype) + ", expected " +
                             text(type)};
        if (request.outputs[i].layout != request.outputs[0].layout) return Rejection{"outputs of different layouts"};
    }
    return std::nullopt;
}

}  // namespace refactor::kernel::elementwise
