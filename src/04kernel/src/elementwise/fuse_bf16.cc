#include "elementwise/fuse_bf16.h"

#include <algorithm>

namespace refactor::kernel::elementwise {

namespace {

bool is_cast(Step const& step, DataType from, DataType to) {
    return step.key.code == code_of(ExprOp::Cast) && step.key.operand == from && step.key.result == to;
}
/// Operators whose first two operands may change places.
bool commutes(ExprOp op) { return op == ExprOp::Add || op == ExprOp::Mul || op == ExprOp::Fma; }

class Bf16Fuser {
    TileProgram const& program_;
    Isa isa_;
    FindTile find_;
    std::vector<Step const*> makers_;
    std::vector<uint32_t> uses_;

    /// The step that makes `value`, if nobody else reads the value.
    Step const* only_maker(uint16_t value) const {
        return uses_[value] == 1 && program_.values[value].output < 0 ? makers_[value] : nullptr;
    }

    /// Casts from bf16 left out.
    static void narrow(Step& step, std::vector<Step const*> const& makers) {
        for (int k = 0; k < step.arity; ++k) {
            auto const* maker = makers[step.operands[k]];
            if (!maker || !is_cast(*maker, DataType::BF16, DataType::F32)) continue;
            step.operands[k] = maker->operands[0];
            step.key.narrow |= static_cast<uint8_t>(1 << k);
        }
        if (commutes(op_of(step.key.code)) && (step.key.narrow & 3) == 2) {
            std::swap(step.operands[0], step.operands[1]);
            step.key.narrow ^= 3;
        }
    }

    /// `step` with a result that `like` has.
    std::optional<Step> rewritten(Step const& step, Step const& like, bool relu) const {
        Step wide = step;
        wide.key.result = like.key.result, wide.key.relu = relu, wide.result = like.result;
        auto fused = wide;
        narrow(fused, makers_);
        for (auto const& candidate : {fused, wide}) {
            if (!candidate.key.has_bf16()) continue;
            bool vectorised = false;
            if (auto run = find_(candidate.key, isa_, vectorised)) {
                auto result = candidate;
                result.run = run;
                return result;
            }
        }
        return std::nullopt;
    }

    std::optional<Step> storing(Step const& cast) const {
        auto const* maker = only_maker(cast.operands[0]);
        if (maker && maker->key.code == TileCode::Round && maker->key.operand == DataType::BF16)
            maker = only_maker(maker->operands[0]);
        if (!maker || maker->key.result != DataType::F32) return std::nullopt;
        if (maker->key.code == code_of(ExprOp::Relu))
            if (auto const* before = only_maker(maker->operands[0]); before && before->key.result == DataType::F32)
                if (auto step = rewritten(*before, cast, true)) return step;
        return rewritten(*maker, cast, false);
    }

public:
    Bf16Fuser(TileProgram const& program, Isa isa, FindTile find)
        : program_(program), isa_(isa), find_(find), makers_(program.values.size()), uses_(program.values.size()) {
        for (auto const& step : program.steps) {
            makers_[step.result] = &step;
            for (int k = 0; k < step.arity; ++k) ++uses_[step.operands[k]];
        }
    }
    std::optional<Step> fused(Step const& step) const {
        if (is_cast(step, DataType::F32, DataType::BF16)) return storing(step);
        if (step.key.operand != DataType::F32 || step.key.result != DataType::F32) return std::nullopt;
        return rewritten(step, step, false);
    }
};

}  // namespace

void fuse_bf16(TileProgram& program, Isa isa, FindTile find) {
    auto steps = program.steps;
    Bf16Fuser fuser(program, isa, find);
    for (auto& step : steps)
        if (auto fused = fuser.fused(step)) step = *fused;
    program.steps = std::move(steps);
}

}  // namespace refactor::kernel::elementwise
