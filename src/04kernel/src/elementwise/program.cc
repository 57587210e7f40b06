#include "elementwise/program.h"

#include "common/error.h"
#include "common/half.h"
#include "elementwise/find_tile.h"
#include "elementwise/fuse_bf16.h"
#include "mem_manager/blob.h"

#include <cstring>

namespace refactor::kernel::elementwise {

namespace {

/// Rounding to a small float changes nothing after these.
bool is_exact(ExprOp op) {
    switch (op) {
        case ExprOp::Abs:
        case ExprOp::Neg:
        case ExprOp::Sign:
        case ExprOp::Floor:
        case ExprOp::Ceil:
        case ExprOp::Round:
        case ExprOp::Relu:
        case ExprOp::ThresholdedRelu:
        case ExprOp::Min:
        case ExprOp::Max:
        case ExprOp::Where:
        case ExprOp::Clip:
            return true;
        default:
            return false;
    }
}

void fill_block(TileProgram::Block& block, DataType type, void const* element) {
    auto bytes = bits_of(type) / 8;
    for (int64_t i = 0; i < kRepeat; ++i) std::memcpy(block.bytes + i * bytes, element, bytes);
}

class Lowering {
public:
    Lowering(ElementwiseInfo const& info, Request const& request, Isa isa) : info_(info), request_(request) {
        program->isa = isa;
    }

    std::optional<Rejection> run() {
        program->input_bytes.resize(request_.inputs.size());
        for (size_t i = 0; i < info_.code.size(); ++i) {
            auto value = lower(info_.code[i]);
            if (!error_.empty())
                return Rejection{"instruction " + std::to_string(i) + " (" + std::string(name_of(info_.code[i].op)) +
                                 "): " + error_};
            registers_.push_back(value);
        }
        for (size_t i = 0; i < info_.outputs.size(); ++i) bind_output(i);
        if (!error_.empty()) return Rejection{error_};
        fuse_steps(*program, program->isa, find_tile);
        fuse_bf16(*program, program->isa, find_tile);
        fuse_sums(*program, program->isa, find_tile);
        remove_dead();
        finish();
        return std::nullopt;
    }

    std::shared_ptr<TileProgram> program = std::make_shared<TileProgram>();

private:
    uint16_t add_value(Value::Kind kind, DataType type, size_t index) {
        program->values.push_back({kind, type, static_cast<uint16_t>(index), -1, -1});
        return static_cast<uint16_t>(program->values.size() - 1);
    }

    uint16_t constant(DataType type, void const* element) {
        program->constants.emplace_back();
        fill_block(program->constants.back(), type, element);
        return add_value(Value::Kind::Constant, type, program->constants.size() - 1);
    }

    bool is_constant(uint16_t value) const { return program->values[value].kind == Value::Kind::Constant; }

    uint16_t step(TileKey key, std::initializer_list<uint16_t> operands, float alpha = 0, float beta = 0) {
        bool vectorised = false;
        Step s{key, find_tile(key, program->isa, vectorised)};
        if (!s.run) {
            error_ = "is not defined for " + std::string(name_of(key.operand));
            return 0;
        }
        for (auto operand : operands) s.operands[s.arity++] = operand;
        s.alpha = alpha, s.beta = beta;
        s.cost = cost_of(key, vectorised);
        if (auto folded = fold(s)) return *folded;
        s.result = add_value(Value::Kind::Step, key.result, 0);
        program->steps.push_back(s);
        return s.result;
    }

    /// The value of a step on constants, computed now; not if it throws, so that the error comes when the user runs the
    /// model.
    std::optional<uint16_t> fold(Step const& s) {
        std::byte* slots[4];
        TileOp op{s.run, 3, {0, 1, 2}, 7, false, s.alpha, s.beta};
        for (int i = 0; i < s.arity; ++i) {
            if (!is_constant(s.operands[i])) return std::nullopt;
            slots[i] = program->constants[program->values[s.operands[i]].index].bytes;
        }
        TileProgram::Block result{};
        slots[3] = result.bytes;
        try {
            op.run(op, slots, kRepeat);
        } catch (InvalidInput const&) {
            return std::nullopt;
        }
        return constant(s.key.result, result.bytes);
    }

    uint16_t cast(uint16_t value, DataType to) {
        auto from = program->values[value].type;
        return from == to ? value : step({code_of(ExprOp::Cast), from, to}, {value});
    }

    uint16_t round(uint16_t value, DataType type) {
        return is_small_float(type) ? step({TileCode::Round, type, DataType::F32}, {value}) : value;
    }

    uint16_t lower_input(ExprInstruction const& code) {
        for (size_t i = 0; i < registers_.size(); ++i)
            if (info_.code[i].op == ExprOp::Input && info_.code[i].operands[0] == code.operands[0])
                return registers_[i];
        auto const& operand = request_.inputs[code.operands[0]];
        // Not by its sizes, which may still be open.
        bool scalar = operand.constant && operand.constant->bytes() * 8 == static_cast<size_t>(bits_of(code.dtype));
        uint16_t value = 0;
        if (scalar) {
            value = constant(code.dtype, operand.constant->data());
        } else {
            program->input_bytes[code.operands[0]] = bits_of(code.dtype) / 8;
            value = add_value(Value::Kind::Input, code.dtype, code.operands[0]);
        }
        return cast(value, register_type(code.dtype));
    }

    uint16_t lower_constant(ExprInstruction const& code) {
        auto exact = is_integer(code.dtype) && code.integer != 0;
        auto stored = exact ? constant(DataType::I64, &code.integer) : constant(DataType::F64, &code.value);
        return round(cast(stored, register_type(code.dtype)), code.dtype);
    }

    uint16_t lower_cast(ExprInstruction const& code) {
        auto source = code.operands[0];
        auto value = cast(registers_[source], register_type(code.dtype));
        return info_.code[source].dtype == code.dtype ? value : round(value, code.dtype);
    }

    /// Powers with a small constant exponent; nothing if there is no shorter way.
    std::optional<uint16_t> lower_power(uint16_t base, uint16_t exponent) {
        if (!is_constant(exponent)) return std::nullopt;
        auto wide = cast(exponent, DataType::F64);
        double power;
        std::memcpy(&power, program->constants[program->values[wide].index].bytes, sizeof(power));
        auto type = program->values[base].type;
        if (power == 1) return base;
        if (power == 2) return step({TileCode::Square, type, type}, {base});
        if (power == 3) return step({TileCode::Cube, type, type}, {base});
        if (power == 0.5) return step({TileCode::SquareRootPower, type, type}, {base});
        if (power == -1 && is_float(type)) return step({code_of(ExprOp::Reciprocal), type, type}, {base});
        return std::nullopt;
    }

    uint16_t lower_pow(ExprInstruction const& code) {
        auto base = registers_[code.operands[0]], exponent = registers_[code.operands[1]];
        auto type = program->values[base].type, other = program->values[exponent].type;
        if (is_float(other) && !is_float(type)) {
            auto result = step({code_of(ExprOp::Pow), DataType::F64, DataType::F64},
                               {cast(base, DataType::F64), cast(exponent, DataType::F64)});
            return cast(result, type);
        }
        if (auto shorter = lower_power(base, exponent)) return *shorter;
        return step({code_of(ExprOp::Pow), type, type}, {base, cast(exponent, type)});
    }

    uint16_t lower(ExprInstruction const& code) {
        if (code.op == ExprOp::Input) return lower_input(code);
        if (code.op == ExprOp::Constant) return lower_constant(code);
        if (code.op == ExprOp::Cast) return lower_cast(code);
        uint16_t value = 0;
        if (code.op == ExprOp::Pow) {
            value = lower_pow(code);
        } else {
            uint16_t r[3]{};
            auto arity = arity_of(code.op);
            for (int i = 0; i < arity; ++i) r[i] = registers_[code.operands[i]];
            TileKey key{code_of(code.op), program->values[r[code.op == ExprOp::Where ? 1 : 0]].type,
                        register_type(code.dtype)};
            value = arity == 1   ? step(key, {r[0]}, code.alpha, code.beta)
                    : arity == 2 ? step(key, {r[0], r[1]})
                                 : step(key, {r[0], r[1], r[2]});
        }
        return error_.empty() && !is_exact(code.op) ? round(value, code.dtype) : value;
    }

    void bind_output(size_t i) {
        auto type = info_.code[info_.outputs[i]].dtype;
        auto value = registers_[info_.outputs[i]];
        if (program->values[value].type != type) {
            value = step({code_of(ExprOp::Cast), DataType::F32, type}, {value});
        }
        if (program->values[value].kind != Value::Kind::Step || program->values[value].output >= 0) {
            Step s{{TileCode::Copy, type, type}, nullptr};
            bool vectorised = false;
            s.run = find_tile(s.key, program->isa, vectorised);
            s.cost = cost_of(s.key, vectorised);
            s.operands[s.arity++] = value;
            s.result = value = add_value(Value::Kind::Step, type, 0);
            program->steps.push_back(s);
        }
        program->values[value].output = static_cast<int32_t>(i);
        program->output_bytes.push_back(bits_of(type) / 8);
    }

    /// A rounding step in front of a store to the same type, and whatever else nobody reads.
    void remove_dead() {
        auto& p = *program;
        std::vector<Step const*> maker(p.values.size());
        for (auto const& s : p.steps) maker[s.result] = &s;
        for (auto& s : p.steps) {
            bool stores = s.key.code == code_of(ExprOp::Cast) && s.key.operand == DataType::F32;
            auto const* source = stores ? maker[s.operands[0]] : nullptr;
            if (source && source->key.code == TileCode::Round && source->key.operand == s.key.result)
                s.operands[0] = source->operands[0];
        }
        std::vector<bool> live(p.values.size());
        std::vector<Step> kept;
        for (auto i = p.steps.size(); i-- > 0;) {
            auto const& s = p.steps[i];
            if (p.values[s.result].output < 0 && !live[s.result]) continue;
            for (int k = 0; k < s.arity; ++k) live[s.operands[k]] = true;
            kept.push_back(s);
        }
        p.steps.assign(kept.rbegin(), kept.rend());
        for (size_t v = 0; v < p.values.size(); ++v)
            if (p.values[v].kind == Value::Kind::Input && !live[v]) p.input_bytes[p.values[v].index] = 0;
    }

    void finish() {
        for (size_t i = 0; i < program->steps.size(); ++i) {
            auto const& s = program->steps[i];
            program->cost += s.cost;
            for (int k = 0; k < s.arity; ++k) program->values[s.operands[k]].last_use = static_cast<int32_t>(i);
            auto const& result = program->values[s.result];
            program->temporary_bytes = std::max<int64_t>(program->temporary_bytes, bits_of(result.type) / 8);
        }
    }

    ElementwiseInfo const& info_;
    Request const& request_;
    std::vector<uint16_t> registers_;  ///< value of every instruction
    std::string error_;
};

}  // namespace

Result<std::shared_ptr<TileProgram const>, Rejection> TileProgram::make(ElementwiseInfo const& info,
                                                                        Request const& request, Isa isa) {
    if (auto no = check_expression(info, request)) return Err{*no};
    Lowering lowering(info, request, isa);
    if (auto no = lowering.run()) return Err{*no};
    return std::shared_ptr<TileProgram const>(std::move(lowering.program));
}

}  // namespace refactor::kernel::elementwise
