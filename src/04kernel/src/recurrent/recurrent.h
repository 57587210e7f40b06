#pragma once
#include "kernel/ops/recurrent.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Sizes and steps (in elements) of one recurrent layer, and where its operands are among the arguments.
struct RecurrentShape {
    int64_t steps = 0, batch = 0, inputs = 0, hidden = 0, directions = 1, gates = 1;
    int64_t x_step = 0, x_batch = 0;                   ///< X
    int64_t y_step = 0, y_batch = 0, y_direction = 0;  ///< Y
    int64_t state_batch = 0, state_direction = 0;      ///< initial states, Y_h, Y_c
    int bias = -1, lengths = -1, initial_h = -1, initial_c = -1, peepholes = -1;
    int y = -1, y_h = -1, y_c = -1;

    /// Why the operands do not fit together, or empty.
    std::string init(RecurrentInfo const&, BindArgs const&);
    bool is_reverse(RecurrentInfo const& info, int64_t direction) const { return info.reverse || direction == 1; }
    /// Throws `InvalidInput` if a length is outside [0, steps].
    void check_lengths(int32_t const* lengths) const;
    double operations() const {
        return 2. * static_cast<double>(steps * batch * directions) * static_cast<double>(gates * hidden) *
               static_cast<double>(inputs + hidden);
    }
};

/// f32: products by the register tiles of MatMul over packed weights, the cell in vectors.
MaybeKernel make_recurrent_avx512(RecurrentInfo const&, Request const&);
MaybeKernel make_recurrent_avx2(RecurrentInfo const&, Request const&);
/// Any float type; computes in f64.
MaybeKernel make_recurrent_reference(RecurrentInfo const&, Request const&);

}  // namespace refactor::kernel
