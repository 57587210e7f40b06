#pragma once
#include "kernel/ops/reduce.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Row-major dims cut into runs of axes that are all kept or all reduced, alternating, ones left out.
struct ReduceShape {
    struct Run {
        int64_t size, stride;  ///< stride in elements of the input
    };
    SmallVector<Run, 8> kept, reduced;  ///< outermost first
    int64_t kept_count = 1, reduced_count = 1;
    /// The innermost run is a reduced one (or there is none).
    bool reduces_last = true;

    ReduceShape(std::span<int64_t const> dims, std::span<int64_t const> axes);
};

/// `size` elements, `inner` apart, are reduced to one for each of `outer` × `inner`.
struct ReducePass {
    int64_t outer = 1, size = 1, inner = 1;
};
/// One run of reduced axes after the other, of sizes above 0. The longest comes first, so that others read little; at
/// least one.
SmallVector<ReducePass, 4> passes_of(ReduceShape const&);

std::string_view name_of(ReduceKind);

/// f32, any axes, vectorised (AVX-512 or AVX2).
MaybeKernel make_reduce_rows(ReduceInfo const&, Request const&);
/// f32, the channels of blocks (AVX-512 or AVX2); the result is Plain.
MaybeKernel make_reduce_channels(ReduceInfo const&, Request const&);
/// The largest and smallest of i8, u8, i32, i64 and bool, sums and products of i32, i64, u32 and u64, means of i32 and
/// i64 (AVX2).
MaybeKernel make_reduce_integers(ReduceInfo const&, Request const&);
/// Any kind over any axes for every numeric type (and bool for Max and Min); accumulates floats in f64.
MaybeKernel make_reduce_reference(ReduceInfo const&, Request const&);

}  // namespace refactor::kernel
