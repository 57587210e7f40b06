#pragma once
#include "integer_matmul/integer_tail.h"

namespace refactor::kernel {

/// Where the pixels under a position of a depthwise convolution lie.
struct DepthwiseWindow {
    uint8_t const* corner;
    int64_t const* offsets;  ///< bytes from `corner` to the channels of each pixel
};

/// Channels of a depthwise convolution, next to each other in memory: one i32 sum for each, over `taps`.
struct DepthwiseBlock {
    int64_t positions, channels;
    uint8_t const* x;        ///< unsigned bytes, all channels of a position together
    int64_t const* offsets;  ///< bytes from `x` to each position
    int64_t taps;
    int64_t const* tap_offsets;
    /// For `depthwise_in_place` instead of `x` and offsets; elements are exclusive-ored with `flip`.
    DepthwiseWindow const* windows;
    uint8_t flip;
    int32_t const* w;  ///< [taps][`w_row`], each in the range of an i16; whole vectors can be read
    int64_t w_row;
    int32_t const* column_add;
    float const* scale;
    float const* shift;
    uint8_t const* residual;
    IntegerTail tail;
    void* y;
    int64_t y_row;
};

/// Pixels of X, next to each other along one axis: the first, and bytes from one to the next; 0 for rows outside of X.
struct DepthwiseRow {
    uint8_t const* pixels;
    int64_t step;
};

/// Four pixels of 64 channels, and how many of those columns of a strip are interleaved before they are multiplied.
constexpr int64_t kQuadBytes = 256, kDepthwiseQuads = 64;
/// Rows of windows whose sums wait for more quads.
constexpr int64_t kDepthwiseWaiting = 64;

/// Strips of a depthwise convolution with W of bytes. A strip is `outputs` rows of positions; rows may run along either
/// axis of the image.
struct DepthwiseStrips {
    int64_t channels, strips;
    DepthwiseRow const* rows;                ///< [strips][quads][4]: those under the windows of a strip
    uint8_t const* border;                   ///< channels of a pixel outside of X
    uint8_t flip;                            ///< bytes of X are exclusive-ored with it
    int64_t quads, taps;                     ///< of four rows; columns of a window
    int64_t quads_at_once, windows_at_once;  ///< that are interleaved before they are multiplied
    int64_t stride, dilation;                ///< columns of X between windows, and between columns of a window
    int64_t first;                           ///< column of X where the first window begins
    int64_t in_columns, out_columns;
    int64_t outputs, out_rows;  ///< 1, 2 or 4; rows of Y that there are, of all strips
    /// [channels / 64][taps][quads][outputs][4][64], see `integer_depthwise_vnni.h`; the last 32 channels or fewer
    /// twice.
    int8_t const* w;
    int32_t const* column_add;
    float const* scale;
    float const* shift;  ///< one for each channel; null: none
    IntegerTail tail;    ///< to bytes, or to f32; without `rounded` if to f32 or shifted; no residual
    uint8_t* y;
    int64_t y_row, y_column;  ///< bytes
};

}  // namespace refactor::kernel
