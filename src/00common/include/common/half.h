#pragma once
#include "common/data_type.h"

namespace refactor {

/// Scalar conversions, round-to-nearest-even, subnormals and NaN payload bit 'quiet' kept (IEEE 754-2019; OCP 8-bit
/// FP 1.0, MX 1.0).
uint16_t f16_from_f32(float);
float f32_from_f16(uint16_t);
uint16_t bf16_from_f32(float);
float f32_from_bf16(uint16_t);

/// Rounding to a power of two, for `F8E8M0` alone (ONNX Cast `round_mode`, opset 24; nearest breaks ties upwards).
enum class ScaleRounding : uint8_t { Up, Down, Nearest };

/// 8- and 4-bit floats by type (`F8…`, `F4E2M1`). `saturate`: out-of-range values clamp to the largest finite value,
/// else become inf/NaN. `F4E2M1` always saturates and turns NaN into minus zero. `F8E8M0` has no sign: negative values
/// become NaN, zero the smallest scale.
uint8_t f8_from_f32(DataType, float, bool saturate = true, ScaleRounding = ScaleRounding::Up);
float f32_from_f8(DataType, uint8_t);

/// Converts `count` elements with ONNX Cast semantics (truncation toward zero for float → integer, wrap for integer →
/// narrower integer, saturation only for f8 targets when asked). Packed sub-byte types on either side. Strings and
/// complex types are not handled here. Every pair rounds once (f64 or i64 to f16 as well). A float that no i32 (for
/// integers of at most 32 bits; i64, u64 for wider ones) holds is undefined in ONNX; here it gives the lowest i32
/// (i64), cut to the target, as x86 does. `source` and `target` must not overlap. Returns false if the pair of types is
/// not convertible.
bool convert(DataType from, void const* source, DataType to, void* target, int64_t count, bool saturate = true,
             ScaleRounding = ScaleRounding::Up);

}  // namespace refactor
