#pragma once
#include "conv/geometry.h"
#include "integer_matmul/integer_matmul.h"

namespace refactor::kernel {

/// Sizes of an integer convolution.
struct IntegerConvShape : Geometry {
    bool many_zeros = false, many_scales = false;  ///< one zero point (scale) of W for each output channel
    bool x_signed = false, w_signed = false;
    DataType y = DataType::Undefined, residual = DataType::Undefined;
    bool channels_last = false;

    /// Why the operands do not fit together, or empty.
    std::string init(IntegerConvInfo const&, BindArgs const&);
    int64_t group_in() const { return in_channels / group; }
    int64_t group_out() const { return out_channels / group; }
    double operations() const {
        return 2. * static_cast<double>(batch * out_channels * out_size()) * static_cast<double>(taps() * group_in());
    }
};

/// Part of the format of packed W that depends on its zero points: tells their values apart, null if there are none.
std::string zeros_in_format(mem_manager::Blob const* zeros);

/// X is staged with its channels together and padded; then register tiles as in the product, or sums by channel if
/// every group is one channel. With these loops, which need `Isa`; then by instruction set.
MaybeKernel make_integer_conv(IntegerConvInfo const&, Request const&, Isa, IntegerFunctions const& (*loops)());
MaybeKernel make_integer_conv_amx(IntegerConvInfo const&, Request const&);
MaybeKernel make_integer_conv_vnni(IntegerConvInfo const&, Request const&);
MaybeKernel make_integer_conv_avx512(IntegerConvInfo const&, Request const&);
MaybeKernel make_integer_conv_avx2vnni(IntegerConvInfo const&, Request const&);
MaybeKernel make_integer_conv_avx2(IntegerConvInfo const&, Request const&);
MaybeKernel make_integer_conv_avx2_bytes(IntegerConvInfo const&, Request const&);
/// Winograd F(4×4, 3×3) in exact integers, see `integer_winograd.h`.
MaybeKernel make_integer_conv_winograd_vnni(IntegerConvInfo const&, Request const&);
MaybeKernel make_integer_conv_winograd_avx2vnni(IntegerConvInfo const&, Request const&);
MaybeKernel make_integer_conv_winograd_avx2(IntegerConvInfo const&, Request const&);
MaybeKernel make_integer_conv_reference(IntegerConvInfo const&, Request const&);

}  // namespace refactor::kernel
