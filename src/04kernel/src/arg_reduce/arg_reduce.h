#pragma once
#include "kernel/ops/reduce.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// f32, the last axis, vectorised (AVX-512 or AVX2).
MaybeKernel make_arg_reduce_rows(ArgReduceInfo const&, Request const&);
/// f32, another axis, with AVX2.
MaybeKernel make_arg_reduce_columns(ArgReduceInfo const&, Request const&);
/// Integers, any axis, with AVX2.
MaybeKernel make_arg_reduce_integers(ArgReduceInfo const&, Request const&);
MaybeKernel make_arg_reduce_reference(ArgReduceInfo const&, Request const&);

}  // namespace refactor::kernel
