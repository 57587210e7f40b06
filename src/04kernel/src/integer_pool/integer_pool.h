#pragma once
#include "conv/geometry.h"
#include "kernel/ops/integer.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Channels of one position of Y: `taps` pointers to the channels of positions of X.
struct IntegerPoolBlock {
    int64_t channels, taps;
    uint8_t const* const* x;
    bool is_signed;
    void* y;
    bool to_float;  ///< Y is f32, else bytes of X's sign
    int32_t zeros;  ///< the zero point of X, as often as there are taps
    float scale;    ///< of their sum less that
    int32_t y_zero;
};
using IntegerPoolLoop = void (*)(IntegerPoolBlock const&);
struct IntegerPoolLoops {
    IntegerPoolLoop max, average;
};
IntegerPoolLoops integer_pool_loops_avx2();
/// Scalar definition.
IntegerPoolLoops integer_pool_loops_reference();

/// Sizes with the channels in front; an empty kernel covers all positions.
Result<Geometry, Rejection> integer_pool_geometry(IntegerPoolInfo const&, BindArgs const&);

MaybeKernel make_integer_pool_avx2(IntegerPoolInfo const&, Request const&);
MaybeKernel make_integer_pool_reference(IntegerPoolInfo const&, Request const&);

}  // namespace refactor::kernel
