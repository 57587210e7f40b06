#pragma once
#include "computation/graph.h"
#include "kernel/ops/quantize.h"

#include <optional>

namespace refactor::computation {

/// One scale and one zero point for a whole tensor of bytes: `x = (q - zero) * scale`.
struct Quantum {
    DataType dtype = DataType::U8;
    float scale = 1;
    int32_t zero = 0;
    bool operator==(Quantum const&) const = default;
    /// Bounds of q - zero.
    float low() const { return static_cast<float>((is_signed(dtype) ? -128 : 0) - zero); }
    float high() const { return low() + 255; }
};

/// What a Dequantize node reads, or what a Quantize node scales by.
struct QuantizedOperand {
    EdgePtr data, scale, zero;  ///< zero may be null
    kernel::Granularity granularity;
};

/// The operand of the Dequantize node that makes `edge` from bytes; nothing if none does, if its scale is no constant,
/// or if it is not f32.
std::optional<QuantizedOperand> dequantized(EdgePtr edge);
/// The quantum of such an operand, if it has just one and it is a constant.
std::optional<Quantum> quantum_of(QuantizedOperand const&);
/// The quantum by which `node` quantises f32 to bytes, if that is what it does.
std::optional<Quantum> quantizer(NodePtr node);
/// The same of weights: constants of fewer bits become bytes, for what multiplies bytes.
std::optional<QuantizedOperand> dequantized_weights(Graph&, EdgePtr edge);

}  // namespace refactor::computation
