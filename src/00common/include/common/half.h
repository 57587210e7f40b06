#pragma once
#include "common/data_type.h"

namespace refactor {

/// Scalar conversions, round-to-nearest-even, subnormals and NaN payload bit 'quiet' kept (IEEE 754-2019; OCP 8-bit FP 1.0, MX 1.0).
uint16_t f16_from_f32(float);
float f32_from_f16(uint16_t);
uint16_t bf16_from_f32(float);
float f32_from_bf16(uint16_t);
/// 8- and 4-bit floats by type (`F8…`, `F4E2M1`). `saturate`: out-of-range values clamp to the largest finite value, else become inf/NaN.
uint8_t f8_from_f32(DataType, float, bool saturate = true);
float f32_from_f8(DataType, uint8_t);

/// Converts `count` elements with ONNX Cast semantics (truncation toward zero for float → integer, wrap for integer → narrower integer,
/// saturation only for f8 targets when asked). Packed sub-byte types on either side. Strings and complex types are not handled here.
/// Returns false if the pair of types is not convertible.
bool convert(DataType from, void const *source, DataType to, void *target, int64_t count, bool saturate = true);

}// namespace refactor
