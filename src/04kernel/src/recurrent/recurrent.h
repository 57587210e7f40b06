#pragma once
#include "kernel/ops/recurrent.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Scale and zero point of a column of W or R.
struct QuantizedColumns {
    float const* scales;
    void const* zeros;
    int64_t scale_step, zero_step;  ///< between directions
    bool many_scales, many_zeros;   ///< one for each column
    bool is_signed;

    float scale(int64_t direction, int64_t column) const {
        return scales[direction * scale_step + (many_scales ? column : 0)];
    }
    int32_t zero(int64_t direction, int64_t column) const {
        auto at = direction * zero_step + (many_zeros ? column : 0);
        return is_signed ? static_cast<int8_t const*>(zeros)[at] : static_cast<uint8_t const*>(zeros)[at];
    }
};
/// How many scales (zero points) there are and how they advance.
struct QuantizedLayout {
    int64_t scale_step = 0, zero_step = 0;
    bool many_scales = false, many_zeros = false, is_signed = false;
    QuantizedColumns of(void* const* arguments, int scale, int zero) const {
        return {static_cast<float const*>(arguments[scale]),
                arguments[zero],
                scale_step,
                zero_step,
                many_scales,
                many_zeros,
                is_signed};
    }
};

/// Sizes and steps (in elements) of one recurrent layer, and where its operands are among the arguments.
struct RecurrentShape {
    int64_t steps = 0, batch = 0, inputs = 0, hidden = 0, directions = 1, gates = 1;
    int64_t x_step = 0, x_batch = 0;                   ///< X
    int64_t y_step = 0, y_batch = 0, y_direction = 0;  ///< Y
    int64_t state_batch = 0, state_direction = 0;      ///< initial states, Y_h, Y_c
    int bias = -1, lengths = -1, initial_h = -1, initial_c = -1, peepholes = -1;
    int w_scale = -1, w_zero = -1, r_scale = -1, r_zero = -1;
    int y = -1, y_h = -1, y_c = -1;

    QuantizedLayout w_layout, r_layout;

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

/// Why operands and attributes are none of a quantised layer, or empty.
std::string why_not_quantized(RecurrentInfo const&, Request const&);

/// A scale and a zero point of u8 for rows of numbers from `low` to `high`, as DynamicQuantizeLinear-11 says; a scale
/// of zero where all are 0 (or so small that scales lose their precision), of NaN where their distance is infinite or
/// NaN.
struct CodeRange {
    float scale = 0;
    int32_t zero = 0;
};
CodeRange code_range(float low, float high);

/// f32: products by the register tiles of MatMul over packed weights, the cell in vectors.
MaybeKernel make_recurrent_avx512amx(RecurrentInfo const&, Request const&);
MaybeKernel make_recurrent_avx512(RecurrentInfo const&, Request const&);
MaybeKernel make_recurrent_avx2(RecurrentInfo const&, Request const&);
/// The same with operands of products rounded to bf16, if `may_round`.
MaybeKernel make_recurrent_rounded_avx512amx(RecurrentInfo const&, Request const&);
MaybeKernel make_recurrent_rounded(RecurrentInfo const&, Request const&);
/// Weights of bytes: products of integers.
MaybeKernel make_recurrent_quantized_avx512vnni(RecurrentInfo const&, Request const&);
MaybeKernel make_recurrent_quantized_avx2vnni(RecurrentInfo const&, Request const&);
MaybeKernel make_recurrent_quantized_avx2(RecurrentInfo const&, Request const&);
/// Any float type; computes in f64.
MaybeKernel make_recurrent_reference(RecurrentInfo const&, Request const&);

}  // namespace refactor::kernel
