#pragma once
#include "onnx/model_builder.h"
#include "run_model.h"

#include <string_view>

namespace refactor::fuzz {

/// What the ONNX target reads: calls of `onnx::ModelBuilder`, one a line, and how to run the model. Words are separated
/// by single spaces; what makes no sense is skipped.
///
///     opset 17                                  opset ai.onnx.ml 3                    ir 8
///     input x 1 N,3,4                           init w 7 2 1,-1
///     node Relu x y                             node Gemm x,w,,z y alpha=f:0.5 perm=is:1,0
///     value y 1 N,3,4                           output y 0 *
///     graph … end                               a sub-graph; attributes refer to it: body=g:0
///     feed x 1 2,3,4 0.5,-1                     sizes 3,5              passes -layout         allocator bestfit  exact
///
/// Types are codes of ONNX (`1`), or `seq:1`, `opt:seq:1`, `map:7:1`. Sizes: numbers, names, `?`; `.` for a scalar, `*`
/// for an unknown rank. Lists have no spaces, `-` is the empty one. `init` repeats its values until the tensor is full;
/// `#12` instead of values: as many bytes, of whatever size the tensor is. Attributes are `name=kind:value` with the
/// kinds i f s is fs ss, t (`t:7;2;1,-1`), tp (`tp:1;2,N`) and g.
struct OnnxInput {
    onnx::ModelBuilder builder;
    RunSettings settings;
};
OnnxInput parse_onnx(std::string_view text);

size_t mutate_onnx(char* text, size_t size, size_t most, uint32_t seed);

}  // namespace refactor::fuzz
