#pragma once
#include "kernel/ops/conv.h"

namespace refactor::kernel {

/// Sizes of a sliding-window operator with every size known. Spatial axes are always three (depth, height, width):
/// missing leading ones have size 1, stride 1 and no padding,
/// and axes of one element come before the others, wherever the operator has them.
struct Geometry {
    int64_t batch = 1, in_channels = 1, out_channels = 1, group = 1;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3];
    int64_t pad[3], pad_end[3];
    int64_t first_tap[3] = {0, 0, 0}, all_taps[3];  ///< the kernel's place in the weights, which `crop` does not change

    int64_t in_size() const { return in[0] * in[1] * in[2]; }
    int64_t out_size() const { return out[0] * out[1] * out[2]; }
    int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
    bool empty() const { return batch * in_channels * out_channels * in_size() * out_size() == 0; }
    /// Calls `each(depth, height, plane, row)`, taps of the window and what they read, for the rows of a window that
    /// are inside: that of row `row` of plane `plane` of the outputs.
    template <class Each>
    void each_row(int64_t plane, int64_t row, Each&& each) const {
        for (int64_t d = 0; d < kernel[0]; ++d)
            for (int64_t h = 0; h < kernel[1]; ++h) {
                auto z = plane * stride[0] - pad[0] + d * dilation[0], y = row * stride[1] - pad[1] + h * dilation[1];
                if (z >= 0 && z < in[0] && y >= 0 && y < in[1]) each(d, h, z, y);
            }
    }
    /// Drops taps of an axis that read nothing but padding, as wide dilations have on small inputs.
    void crop(int axis);
    /// Makes one axis of neighbours whose window is one element: a kernel (3, 1, 1) then slides over [D, H · W].
    void merge_axes();
    /// The same with so many channels of a group in a lane, of which the last may have fewer.
    Geometry over_lanes(int64_t channels) const;
    /// Index in the weights of each tap, in order.
    SmallVector<int64_t, 64> tap_indices() const;
    /// Text that tells which of the weights' taps are read; empty if all.
    std::string cropped() const;
    bool padded() const {
        return pad[0] > 0 || pad[1] > 0 || pad[2] > 0 || pad_end[0] > 0 || pad_end[1] > 0 || pad_end[2] > 0;
    }
};

/// Sizes from operands X (input 0) and Y (output 0) and a kernel of `kernel` spatial sizes. Pads come from
/// `args.params` (begins, then ends) if there are any. Declines ranks other than 3 to 5 and sizes that contradict each
/// other.
Result<Geometry, Rejection> geometry_of(Window const&, std::span<int64_t const> kernel, BindArgs const& args);
/// The same for a convolution in groups by W: [Y channels, X channels / group, kernel…] (input 1); declines numbers of
/// channels that contradict W.
Result<Geometry, Rejection> conv_geometry(Window const&, int64_t group, BindArgs const& args);
/// The same with its axes merged; declines tensors without elements.
Result<Geometry, Rejection> merged_conv_geometry(ConvInfo const&, BindArgs const& args);
/// The same for a transposed one, whose W is [X channels, Y channels / group, kernel…].
Result<Geometry, Rejection> conv_transpose_geometry(Window const&, int64_t group, BindArgs const& args);

/// Finds elements of a tensor [N, C, spatial…] in its layout.
struct Addressing {
    int64_t channels, spatial, block;
    Addressing(TensorDesc const& desc);
    int64_t blocks() const { return (channels + block - 1) / block; }
    /// Element (n, c, s), s counting spatial positions in row-major order; c may lie in the padding of the last block.
    int64_t at(int64_t n, int64_t c, int64_t s) const {
        return ((n * blocks() + c / block) * spatial + s) * block + c % block;
    }
};

/// "[1, 3, 224, 224]"
std::string dims_text(std::span<int64_t const> dims);

}  // namespace refactor::kernel
