#pragma once
#include "common/half.h"
#include "kernel/kernel.h"

namespace refactor::kernel {

/// Elements of another type: their values, or (`reinterpret`, types of equal width) their bits. Any pair of numeric
/// types, packed ones too; one rounding to nearest even. `saturate` and `rounding` as in `refactor::convert`, which
/// says what happens out of range. Input x, output of the same shape. Source: ONNX Cast-24, BitCast-26.
///
/// Conversions that the Expression engine has (same results) are better left to it, where they fuse.
struct ConvertInfo {
    static constexpr char const* kType = "Convert";
    bool saturate = true, reinterpret = false;
    ScaleRounding rounding = ScaleRounding::Up;
    std::string attributes() const;
};
Candidates candidates(ConvertInfo const&, Request const&);

/// Which elements share a scale and a zero point. One element: all of them. `block` 0: one for each index of `axis`.
/// Else one for every `block` indices of `axis` (the last block may be shorter) at each index of the other axes.
struct Granularity {
    int64_t axis = 0, block = 0;
    bool operator==(Granularity const&) const = default;
};

/// `y = saturate(round(x / scale) + zero_point)`, rounding to nearest even; floats as targets round once, after the
/// zero point is added. Infinities saturate, NaN gives the lowest integer.
///
/// Inputs: x (f32, f16, bf16, i32), scale (a float, f8e8m0 too, or i32), zero point (of the output's type; optional).
/// The quotient is computed in f32 and rounded to `precision`, to which x and scale are rounded before. Output: an
/// integer of 2 to 16 bits or a float of 4 or 8 bits, of x's shape. Source: ONNX QuantizeLinear-25.
struct QuantizeInfo {
    static constexpr char const* kType = "Quantize";
    Granularity granularity;
    DataType precision = DataType::F32;
    bool saturate = true;  ///< f8 only: what is out of range becomes the largest finite value
    std::string attributes() const;
};
Candidates candidates(QuantizeInfo const&, Request const&);

/// `y = (x - zero_point) * scale`, computed in f32, rounded once to the output's type (f32, f16, bf16).
///
/// Inputs: x (an integer of 2 to 32 bits, a float of 4 or 8 bits), scale (a float, f8e8m0 too), zero point (of x's
/// type; optional). Source: ONNX DequantizeLinear-25.
struct DequantizeInfo {
    static constexpr char const* kType = "Dequantize";
    Granularity granularity;
    std::string attributes() const;
};
Candidates candidates(DequantizeInfo const&, Request const&);

}  // namespace refactor::kernel
