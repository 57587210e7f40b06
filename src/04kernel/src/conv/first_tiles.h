#pragma once
#include "conv/conv.h"
#include "conv/tile.h"

// First layers by tiles (AMX): few channels, so that what a row of the window reads of the image, columns with their
// channels side by side, is a row of a tile of A where it lies, and a row of the window one product or a few.

namespace refactor::kernel {

/// Rows of an image [C, height, width] of up to four channels as numbers of bf16, [row][column][channels] with zeros
/// for channels and columns that are not there.
struct FirstBand {
    float const* x;
    int64_t channels, plane;   ///< of X; floats of a plane
    int64_t rows, columns;     ///< of X
    int64_t row, count, step;  ///< from this row of X on (may be outside), so many, `step` apart
    int64_t pad;               ///< columns in front
    int64_t held;              ///< of a column: 2 or 4 channels
    uint16_t* band;
    int64_t band_row;  ///< elements of a row of the band
};

/// A row of outputs of all channels.
struct FirstRow {
    uint16_t const* x;    ///< of the band, what the first position reads
    int64_t window_row;   ///< elements of the band between rows of the window
    int64_t window_rows;  ///< of the window
    int64_t position;     ///< elements between positions
    int64_t parts;        ///< of a row of the window, one product each
    int64_t dwords;       ///< pairs that a part reads, up to 16
    float const* w;       ///< [chunk of one or two blocks][row of the window][part][dwords][blocks × 16] pairs
    int64_t blocks;       ///< of output channels
    RowJob job;           ///< results: y, bias, residual of the first block, and `cols`
    int32_t last_lanes;   ///< of the last block
};

struct FirstTiles {
    void (*fill)(FirstBand const&);
    void (*run)(FirstRow const* rows, int64_t count);  ///< rows of one convolution
};
FirstTiles const& first_tiles_avx512amx();

KernelResult make_first_tiles(ConvInfo const&, Request const&, Isa, FirstTiles const& (*)());

}  // namespace refactor::kernel
