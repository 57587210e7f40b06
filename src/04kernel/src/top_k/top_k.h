#pragma once
#include "kernel/ops/reduce.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// f32, with AVX2: columns of an axis, or many short rows, of few that are kept.
MaybeKernel make_top_k_lanes(TopKInfo const&, Request const&);
/// f32, with AVX2.
MaybeKernel make_top_k_filter(TopKInfo const&, Request const&);
/// Integers, any axis; portable.
MaybeKernel make_top_k_integers(TopKInfo const&, Request const&);
MaybeKernel make_top_k_reference(TopKInfo const&, Request const&);

}  // namespace refactor::kernel
