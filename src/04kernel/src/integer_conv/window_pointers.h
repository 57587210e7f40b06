#pragma once
#include "integer_conv/integer_conv.h"

namespace refactor::kernel {

/// Where the pixels under the windows of a depthwise convolution lie in X itself, [N, spatial…, C]: no copy of X with
/// its borders is needed. A window covers one position, or two that share pixels (`DepthwisePair`).
class WindowPointers {
    struct Pixel {
        int64_t steps[3];  ///< from the corner of the window
        int64_t offset;    ///< the same in bytes
    };
    std::vector<Pixel> pixels_;
    int64_t in_[3] = {}, out_[3] = {}, stride_[3] = {}, pad_[3] = {}, last_[3] = {};
    int64_t channels_ = 0;
    bool pairs_ = false;

    void point_at_border(uint8_t const* corner, int64_t const (&begin)[3], uint8_t const* border,
                         uint8_t const** pointers) const;

public:
    WindowPointers() = default;
    /// `pairs`: of two positions, else of one.
    WindowPointers(IntegerConvShape const& s, bool pairs);

    /// Bytes that `point` fills for `positions`.
    size_t bytes(int64_t positions) const;
    /// Windows of `count` positions from `first` on; `border` are the channels of a pixel outside of X. Returns how
    /// many pairs were written, none if windows cover one position. `pairs` has room for `count`.
    int64_t point(uint8_t const* x, uint8_t const* border, int64_t first, int64_t count, uint8_t const** pointers,
                  DepthwisePair* pairs) const;
};

}  // namespace refactor::kernel
