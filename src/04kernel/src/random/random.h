#pragma once
#include "kernel/ops/random.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Any float type; computes in f64.
MaybeKernel make_random_reference(RandomInfo const&, Request const&);
/// Any float type, draws by bisection of the cumulative probabilities in f64.
MaybeKernel make_multinomial_reference(MultinomialInfo const&, Request const&);

}  // namespace refactor::kernel
