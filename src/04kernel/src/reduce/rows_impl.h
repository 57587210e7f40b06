#pragma once
// Written against `Vec`; include `vec_*.h` and `math.h`, or those for f64, first.
#include "reduce/rows_norm_impl.h"
#include "reduce/rows_reduce_impl.h"
#include "reduce/rows_sets_impl.h"
#include "reduce/rows_short_impl.h"
#include "reduce/rows_softmax_impl.h"

namespace refactor::kernel {
namespace {

constexpr RowFunctionsOf<Element> kFunctions{
    kWidth,  kColumnVectors* kWidth, partial,    columns,          short_rows, column_sets, finish,
    softmax, softmax_columns,        layer_norm, layer_norm_lanes, group_norm, lane_sums,   lane_affine};

}  // namespace
}  // namespace refactor::kernel
