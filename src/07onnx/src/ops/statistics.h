#pragma once
#include "operator_def.h"

namespace refactor::onnx {

/// What normalisations hand out beside their result: f32, one element for each row.
struct Statistics {
    LowerContext::Edge mean, inverse;  ///< 1 / sqrt(variance + epsilon)
};
/// Those of the rows of x, which are its axes from `axis` on; if `rms`, as if the mean were 0.
Statistics emit_statistics(LowerContext& c, LowerContext::Edge x, size_t axis, float epsilon, bool rms = false);

}  // namespace refactor::onnx
