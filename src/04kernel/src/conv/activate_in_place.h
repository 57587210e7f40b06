#pragma once
#include "kernel/epilogue.h"

#include <cstdint>

namespace refactor::kernel {

/// y = act(y), for sums that are complete only in memory.
void activate_in_place_avx2(float* y, int64_t count, Activation const&);
void activate_in_place_avx512(float* y, int64_t count, Activation const&);

}  // namespace refactor::kernel
