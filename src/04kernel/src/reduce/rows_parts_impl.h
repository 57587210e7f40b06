#pragma once
// Written against `Vec`; include `vec_*.h` and `math.h`, or those for f64, first.
#include "reduce/rows.h"

namespace refactor::kernel {
namespace {

using Element = Vec::Element;

constexpr int kWidth = Vec::width;
/// Vectors worked on together: enough to hide the latency of an addition (4 cycles, 2 units; 8 where it matters is no
/// faster than L2).
constexpr int kLanes = 4;
constexpr Element kInf = static_cast<Element>(__builtin_inf());

RG_SIMD float root_of(float x) { return __builtin_sqrtf(x); }
RG_SIMD double root_of(double x) { return __builtin_sqrt(x); }
RG_SIMD float log_of(float x) { return __builtin_logf(x); }
RG_SIMD double log_of(double x) { return __builtin_log(x); }
RG_SIMD int left_of(int64_t count) { return count < kWidth ? static_cast<int>(count) : kWidth; }
RG_SIMD Vec load_part(Element const* p, int left) { return left == kWidth ? Vec::load(p) : Vec::load_first(p, left); }
RG_SIMD void store_part(Vec x, Element* p, int left) { left == kWidth ? x.store(p) : x.store_first(p, left); }

}  // namespace
}  // namespace refactor::kernel
