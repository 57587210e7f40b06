#pragma once
#include "operator_def.h"

/// What quantised operators share.
namespace refactor::onnx {

struct DynamicallyQuantised {
    frontend::LowerContext::Edge y, scale, zero_point;  ///< u8 of x's shape; f32 and u8 scalars
};
/// Emits DynamicQuantizeLinear-11 of an f32 tensor. A tensor of zeros gets the scale 1 / 255.
DynamicallyQuantised emit_dynamic_quantize(LowerContext& c, LowerContext::Edge x);

/// Emits `(x - zero_point) * scale` in f32; one scale, or one for each index of `axis`. `zero_point` may be null.
LowerContext::Edge emit_dequantize(LowerContext& c, LowerContext::Edge x, LowerContext::Edge scale,
                                   LowerContext::Edge zero_point, int64_t axis = 0);
/// Emits `saturate(round(x / scale) + zero_point)` of type `to`; `zero_point` may be null.
LowerContext::Edge emit_quantize(LowerContext& c, LowerContext::Edge x, LowerContext::Edge scale,
                                 LowerContext::Edge zero_point, DataType to);

/// Whether a shape is that of one value: a scalar or [1].
bool is_one(Shape const& shape);

}  // namespace refactor::onnx
