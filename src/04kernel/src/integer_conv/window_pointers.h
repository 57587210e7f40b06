#pragma once
#include "integer_conv/integer_conv.h"

namespace refactor::kernel {

/// Where the pixels under the windows of a depthwise convolution lie in X itself, [N, spatial…, C]: no copy of X with
/// its borders is needed. All windows that no border cuts have the same offsets.
class WindowPointers {
    struct Steps {
        int64_t of[3];  ///< from the corner of the window
    };
    std::vector<Steps> pixels_;
    std::vector<int64_t> offsets_;  ///< the same in bytes
    int64_t in_[3] = {}, out_[3] = {}, stride_[3] = {}, pad_[3] = {}, last_[3] = {};
    int64_t inside_[2] = {};  ///< first and last position of a line whose window has no pixel outside of it
    int64_t channels_ = 0;

    void point_at_border(uint8_t const* corner, int64_t const (&begin)[3], uint8_t const* border,
                         int64_t* offsets) const;

public:
    WindowPointers() = default;
    explicit WindowPointers(IntegerConvShape const& s);

    /// Offsets that `point` may need for `positions`.
    int64_t offsets(int64_t positions) const { return positions * static_cast<int64_t>(offsets_.size()); }
    /// Windows of `count` positions from `first` on; `border` are the channels of a pixel outside of X; there is
    /// room for `offsets` as above.
    void point(uint8_t const* x, uint8_t const* border, int64_t first, int64_t count, DepthwiseWindow* windows,
               int64_t* offsets) const;
};

}  // namespace refactor::kernel
