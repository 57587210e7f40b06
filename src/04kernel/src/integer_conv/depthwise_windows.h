#pragma once
#include "integer_conv/integer_conv.h"

#include <vector>

namespace refactor::kernel {

/// The windows of a depthwise convolution in strips, see `DepthwiseStrips`. Rows run along the image's last axis; or,
/// if the window lies along that, across it. Rows of windows share pixels where the window is one image deep.
class DepthwiseWindows {
    int across_ = 1, along_ = 2;    ///< axes of the image: from row to row, from column to column
    std::vector<int64_t> taps_[2];  ///< of every row of a strip: places on axes 0 and `across_`
    int64_t quads_ = 0, outputs_ = 0;
    int64_t quads_at_once_ = 0, windows_at_once_ = 0;
    IntegerConvShape s_;

    int64_t step(int axis) const;  ///< bytes of X
    void choose_parts();

public:
    DepthwiseWindows() = default;
    explicit DepthwiseWindows(IntegerConvShape const&);

    /// Whether the columns of a window fit the room that there is for them.
    bool fits() const { return quads_at_once_ > 0; }
    int64_t quads() const { return quads_; }
    int64_t strips() const { return (s_.out[across_] + outputs_ - 1) / outputs_; }  ///< of an image
    int64_t images() const { return s_.out[0]; }                                    ///< along the axis in front of both
    /// Text that tells packings apart.
    std::string format() const;

    size_t packed_bytes() const;
    /// `words`: [taps][columns]. False if they are not bytes.
    bool pack(int32_t const* words, int64_t columns, int8_t* target) const;
    /// The rest but for channels. `count` strips of image z from `first` on; `x`, `y`: the first channel of a sample;
    /// `rows`: room for `count * quads() * 4`.
    void point(int64_t z, int64_t first, int64_t count, uint8_t const* x, uint8_t const* border, uint8_t* y,
               DepthwiseRow* rows, DepthwiseStrips& target) const;
};

}  // namespace refactor::kernel
