#pragma once
// Written against `Vec`; include `vec_*.h` and `math.h` first.
#include "reduce/rows.h"

namespace refactor::kernel {
namespace {

constexpr int kWidth = Vec::width;
/// Vectors worked on together: enough to hide the latency of an addition (4 cycles, 2 units; 8 where it matters is no
/// faster than L2).
constexpr int kLanes = 4;
constexpr float kInf = __builtin_inff();

RG_SIMD int left_of(int64_t count) { return count < kWidth ? static_cast<int>(count) : kWidth; }
RG_SIMD Vec load_part(float const* p, int left) { return left == kWidth ? Vec::load(p) : Vec::load_first(p, left); }
RG_SIMD void store_part(Vec x, float* p, int left) { left == kWidth ? x.store(p) : x.store_first(p, left); }

}  // namespace
}  // namespace refactor::kernel
