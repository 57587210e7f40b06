#pragma once
#include "movement/movement.h"
#include "resize/axis_taps.h"

namespace refactor::kernel {

/// Whether `resize_narrow` is faster than one row after the other.
bool is_narrow_resize(AxisTaps const& rows, AxisTaps const& columns);

/// Interpolation of `planes` images of f32 with short rows: strips of them are turned, so that vectors run along what
/// were columns. The output is argument `output`.
movement::TaskResult resize_narrow(AxisTaps const& rows, AxisTaps columns, int64_t planes, size_t output, Isa isa);

}  // namespace refactor::kernel
