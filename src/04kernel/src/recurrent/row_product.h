#pragma once
#include <cstdint>

// The boundary between the walk over one sequence (baseline code) and the loop over the weights of a step.

namespace refactor::kernel {

/// y = h · R for some whole panels of R, of `depth` rows each: a stream of weights, each of which is used once. An
/// element of h and of R is a float or, for `bf16`, a pair.
using RowProduct = void (*)(int64_t panels, int64_t depth, float const* h, float const* r, float* y);

RowProduct row_product_avx512();
RowProduct row_product_avx512bf16();

}  // namespace refactor::kernel
