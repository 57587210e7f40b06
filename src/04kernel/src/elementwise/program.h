#pragma once
#include "elementwise/tile.h"
#include "kernel/ops/elementwise.h"

#include <memory>
#include <optional>
#include <vector>

namespace refactor::kernel::elementwise {

/// One instruction on values. Values are numbered: inputs and constants come from outside, every step makes one more.
struct Step {
    TileKey key;
    TileFunction run = nullptr;
    uint16_t result = 0, operands[3]{};
    uint8_t arity = 0;
    float alpha = 0, beta = 0;
    float cost = 0;  ///< ns for one element, roughly
};

struct Value {
    enum class Kind : uint8_t { Input, Constant, Step } kind;
    DataType type;     ///< as it lies in a tile: f16, bf16 and f8 only where they are loaded or stored
    uint16_t index;    ///< of the input, or of the constant
    int32_t output;    ///< number of the output that holds the value, or -1
    int32_t last_use;  ///< last step that reads it, or -1
};

/// An Expression prepared for one instruction set: small floats are widened where they are loaded and rounded where the
/// specification rounds, constants are folded, every step has its function. Immutable, shared by the tasks of all
/// shapes.
struct TileProgram {
    std::vector<Value> values;
    std::vector<Step> steps;
    struct alignas(64) Block {
        std::byte bytes[kRepeatBytes];
    };
    std::vector<Block> constants;      ///< `kRepeat` copies each
    std::vector<int64_t> input_bytes;  ///< size of an element of every input; 0 if it is not read
    std::vector<int64_t> output_bytes;
    Isa isa = Isa::Scalar;
    float cost = 0;               ///< ns for one element
    int64_t temporary_bytes = 1;  ///< of one element of the widest temporary

    /// `isa` is Scalar for the portable functions. The reasons of a refusal name the instruction.
    static Result<std::shared_ptr<TileProgram const>, Rejection> make(ElementwiseInfo const& info,
                                                                      Request const& request, Isa isa);
};

/// Type in which registers of `type` are computed: f32 for smaller floats.
DataType register_type(DataType type);
bool is_small_float(DataType type);

/// Checks an expression against its operands: types of all instructions, order, number of outputs. Shared with the
/// reference.
std::optional<Rejection> check_expression(ElementwiseInfo const& info, Request const& request);

}  // namespace refactor::kernel::elementwise
