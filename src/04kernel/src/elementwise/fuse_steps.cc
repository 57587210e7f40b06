#include "elementwise/fuse_steps.h"

#include <cstring>

namespace refactor::kernel::elementwise {

namespace {

bool is_byte(DataType type) { return type == DataType::U8 || type == DataType::I8; }

class StepFuser {
    TileProgram& program_;
    std::vector<Step const*> makers_;
    std::vector<uint32_t> uses_;

    bool is_step(Step const& step, ExprOp op) const { return step.key.code == code_of(op); }

    /// The step of kind `op` that makes `value`, if nobody else reads the value.
    Step const* made_by(uint16_t value, ExprOp op) const {
        auto const* step = makers_[value];
        if (!step || !is_step(*step, op) || uses_[value] != 1 || program_.values[value].output >= 0) return nullptr;
        return step;
    }
    bool is_constant(uint16_t value, float wanted) const {
        auto const& v = program_.values[value];
        if (v.kind != Value::Kind::Constant || v.type != DataType::F32) return false;
        float actual;
        std::memcpy(&actual, program_.constants[v.index].bytes, sizeof actual);
        return actual == wanted;
    }

    std::optional<Step> dequantize(Step const& product) const {
        if (!is_step(product, ExprOp::Mul) || product.key.operand != DataType::F32) return std::nullopt;
        for (int side = 0; side < 2; ++side) {
            auto const* difference = made_by(product.operands[side], ExprOp::Sub);
            auto const* cast = difference ? made_by(difference->operands[0], ExprOp::Cast) : nullptr;
            if (!cast || !is_byte(cast->key.operand)) continue;
            Step fused = product;
            fused.key = {TileCode::Dequantize, cast->key.operand, DataType::F32};
            fused.operands[0] = cast->operands[0], fused.operands[1] = difference->operands[1];
            fused.operands[2] = product.operands[1 - side], fused.arity = 3;
            return fused;
        }
        return std::nullopt;
    }

    std::optional<Step> round_to_byte(Step const& cast) const {
        if (!is_step(cast, ExprOp::Cast) || cast.key.operand != DataType::F32 || !is_byte(cast.key.result))
            return std::nullopt;
        auto const* clip = made_by(cast.operands[0], ExprOp::Clip);
        float low = cast.key.result == DataType::I8 ? -128 : 0;
        if (!clip || !is_constant(clip->operands[1], low) || !is_constant(clip->operands[2], low + 255))
            return std::nullopt;
        auto const* sum = made_by(clip->operands[0], ExprOp::Add);
        for (int side = 0; sum && side < 2; ++side) {
            auto const* rounded = made_by(sum->operands[side], ExprOp::Round);
            if (!rounded) continue;
            Step fused = cast;
            fused.key.code = TileCode::RoundToByte;
            fused.operands[0] = rounded->operands[0], fused.operands[1] = sum->operands[1 - side], fused.arity = 2;
            auto const* quotient = made_by(fused.operands[0], ExprOp::Div);
            if (!quotient) return fused;
            fused.key.code = TileCode::QuantizeToByte, fused.arity = 3;
            fused.operands[0] = quotient->operands[0], fused.operands[2] = quotient->operands[1];
            return fused;
        }
        return std::nullopt;
    }

    std::optional<Step> product_and_sum(Step const& sum) const {
        if (!is_step(sum, ExprOp::Add) || sum.key.has_bf16() || is_integer(sum.key.operand)) return std::nullopt;
        for (int side = 0; side < 2; ++side) {
            auto const* product = made_by(sum.operands[side], ExprOp::Mul);
            if (!product || product->key.has_bf16()) continue;
            Step fused = sum;
            fused.key.code = TileCode::MulAdd;
            fused.operands[0] = product->operands[0], fused.operands[1] = product->operands[1];
            fused.operands[2] = sum.operands[1 - side], fused.arity = 3;
            return fused;
        }
        return std::nullopt;
    }

public:
    explicit StepFuser(TileProgram& program)
        : program_(program), makers_(program.values.size()), uses_(program.values.size()) {
        for (auto const& step : program.steps) {
            makers_[step.result] = &step;
            for (int k = 0; k < step.arity; ++k) ++uses_[step.operands[k]];
        }
    }
    std::optional<Step> of_bytes(Step const& step) const {
        auto result = dequantize(step);
        return result ? result : round_to_byte(step);
    }
    std::optional<Step> of_sum(Step const& step) const { return product_and_sum(step); }
};

void fuse(TileProgram& program, Isa isa, FindTile find, std::optional<Step> (StepFuser::*fused_of)(Step const&) const) {
    auto steps = program.steps;
    StepFuser fuser(program);
    for (auto& step : steps) {
        auto fused = (fuser.*fused_of)(step);
        bool vectorised = false;
        if (!fused || !(fused->run = find(fused->key, isa, vectorised))) continue;
        step = *fused;
    }
    program.steps = std::move(steps);
}

}  // namespace

void fuse_steps(TileProgram& program, Isa isa, FindTile find) { fuse(program, isa, find, &StepFuser::of_bytes); }
void fuse_sums(TileProgram& program, Isa isa, FindTile find) { fuse(program, isa, find, &StepFuser::of_sum); }

}  // namespace refactor::kernel::elementwise
