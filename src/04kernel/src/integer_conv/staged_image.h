#pragma once
#include "integer_conv/integer_conv.h"
#include "integer_matmul/integer_pack.h"

namespace refactor::kernel {

/// One image of X as integer convolutions read it: padded with the zero point, the channels of a group next to each
/// other, or all channels, elements as `IntegerFunctions` want those of A. Convolutions then have no borders: every
/// position reads the same distances from its first element.
///
/// Order: [groups, depth, height, width, channels], of which `line` counts groups, depths and heights together.
struct StagedImage {
    int64_t groups, channels;  ///< channels of one group
    int64_t depth, height, width;
    int64_t element;  ///< bytes

    bool in_place;  ///< X itself has this form

    /// `together`: one group of all channels. `may_stay`: nothing but the order and the borders of X forbid
    /// to read it directly.
    StagedImage(IntegerConvShape const& s, int64_t element_bytes, bool together, bool may_stay);

    int64_t lines() const { return groups * depth * height; }
    int64_t line_bytes() const { return width * channels * element; }
    /// With room for vectors that read beyond the last element.
    size_t bytes() const { return static_cast<size_t>(lines() * line_bytes()) + 64; }
    int64_t group_bytes() const { return depth * height * line_bytes(); }
    /// Bytes from the beginning of a group to the first element under a window position (tap).
    int64_t at(int64_t z, int64_t y, int64_t x) const { return ((z * height + y) * width + x) * channels * element; }
    /// Fills one line. `pad` is the zero point as an element; `scratch` has `width * channels` bytes. `widen` brings
    /// bytes into elements.
    void stage(IntegerConvShape const& s, uint8_t const* x, int64_t line, int32_t pad, uint8_t* target,
               uint8_t* scratch, void (*widen)(uint8_t const*, bool, int64_t, uint8_t*)) const;
};

}  // namespace refactor::kernel
