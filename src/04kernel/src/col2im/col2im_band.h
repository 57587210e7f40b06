#pragma once
#include <cstdint>

namespace refactor::kernel {

/// Some lines of a picture are summed in the first level of a cache, tap by tap, so that the columns are read from
/// memory in one piece. With a stride along the line neighbours of a tap are no neighbours in the picture: the elements
/// of a line are then kept by phase (element modulo stride), one behind the other, and woven together in the end.

/// Floats of a band: 16 KiB.
constexpr int64_t kCol2ImBand = 4096;

/// to[line · to_step + j] += from[line · from_step + j] for j in [0, count)
struct Col2ImTap {
    float const* from;
    float* to;
    int64_t from_step, to_step, lines, count;
};
void add_tap_avx2(Col2ImTap const&);

/// y[stride · k + phase] = from[phase · step + k] for all of `size` elements
void weave_phases_avx2(float const* from, int64_t step, int64_t size, int64_t stride, float* y);

}  // namespace refactor::kernel
