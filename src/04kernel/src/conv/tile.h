#pragma once
#include "kernel/epilogue.h"

#include <cstdint>

// The register tile that direct convolution, 1×1 convolution, first layers, transposed convolution and the products of
// Winograd share:
//     y[block][row][col] = epilogue(Σ_tap Σ_inner w[tap][inner][block] · x[tap offset + row, col, inner])
// A tile of one or two blocks of output channels and up to 14 (AVX2: 6, of one block 12) positions lives in registers
// for the whole sum: 2 × 14 accumulators, two weight vectors and a broadcast fill 31 of the 32 AVX-512 registers, 2 × 6
// + 3 the 16 of AVX2. With 28 independent chains the latency of the multiply-add (4 cycles on 2 ports) is hidden.

namespace refactor::kernel {

/// Weights in parts, [step][parts][lanes][blocks × block], where a step is a unit of two blocks and a tap: those that
/// are multiplied with, and those wanted next, which are made meanwhile.
struct PanelsInParts {
    float *now, *next;
    float const *now_w = nullptr, *next_w = nullptr;  ///< that they are made of; null: none
    int64_t next_steps = 0;                           ///< that are done

    static constexpr int64_t kStepFloats = 3 * 256 * 2, kStepBytes = 4 * kStepFloats;  ///< of two blocks
};

/// Tensors that are bf16 in blocks of 32 channels, each as long as a block of 16 floats.
struct RoundedTensors {
    bool x = false, y = false;  ///< Y and the residual are alike
};

/// Rows of positions of one chunk (1 or 2 blocks) of output channels. All distances in floats.
struct RowJob {
    float const* x;
    int64_t x_row;        ///< between rows of positions; columns are one block apart (planar: one float)
    int64_t const* taps;  ///< offsets from a position to what it is multiplied with; null: multiples of `tap_step`
    int64_t tap_step;
    int64_t tap_count;
    int64_t full_taps;  ///< the taps after these read only the first `last_inner` channels of their block
    int32_t last_inner;
    float const* w;  ///< [tap_count][channels read: a block but for the first and last, or 1 if planar][blocks × block]
    float* y;
    int64_t y_block, y_row, y_step;  ///< between blocks, rows, columns
    float const* bias;               ///< null: 0
    float const* residual;           ///< addressed as y; may be null
    int32_t rows, cols;
    int32_t blocks;
    int32_t last_lanes;  ///< lanes of the last block that hold channels; the others become 0
    bool planar;
    bool residual_last;
    Activation activation;
    int64_t first_taps = 0;  ///< the taps before these leave out the first `first_inner` channels of their block
    int32_t first_inner = 0;
    bool add = false;              ///< to what y holds, instead of the bias
    float const* ahead = nullptr;  ///< as many weights as `w` has, wanted after these; null: none
    /// The last block has at most half as many lanes as vectors, which half a vector multiplies in half the time.
    bool half = false;
    bool far = false;  ///< y and residual are asked for while sums are made, where tiles do so
    /// y and residual are numbers of bf16, 32 channels in a block, as long as one of 16 floats.
    bool rounded = false;
    bool half_block = false;  ///< of such a block the one of vectors is a half, whose other half others make
    /// Of numbers in parts: floats between parts of `x`, taps of a unit, a place for weights in parts, and the job
    /// behind this one (null: none). `taps` has those of each block.
    int64_t x_part = 0, unit_taps = 1;
    PanelsInParts* panels = nullptr;
    RowJob const* following = nullptr;
};

/// Fills a zero-padded copy of the input that the positions of a band read, [unit][plane][row][phase][column] of blocks
/// (planar: floats): a stride s between columns becomes s phases with stride 1. Where lanes hold two channels, a unit
/// is made of two neighbours of the input, the last perhaps of one; they may be in parts.
struct BandJob {
    float const* x;                  ///< first unit of the image
    int64_t x_unit, x_plane, x_row;  ///< distances in floats
    float* band;
    int64_t units, planes, rows, phases, columns;
    int64_t x_units;     ///< of the input
    int64_t phase_mask;  ///< bit p mod 64: phase p is read
    int64_t plane_first, plane_step, row_first, row_step, column_first,
        column_step;  ///< input index = first + i * step
    int64_t in_planes, in_rows, in_columns;
    int64_t skip = 0;  ///< floats of the band behind each plane of a unit that are left as they are
};

/// One instruction set.
struct TileIsa {
    int block;    ///< floats in a vector
    int columns;  ///< largest tile of positions of two blocks
    void (*rows)(RowJob const&);
    void (*band)(BandJob const&);         ///< elements are blocks
    void (*planar_band)(BandJob const&);  ///< elements are floats
    /// Channels of X in a lane of what `rows` reads: 1, or 2 that `band` turns into numbers of bf16, whose products
    /// VDPBF16PS or tiles add. Weights are then pairs as well; bias, residual and Y are f32.
    int channels = 1;
    /// Numbers of bf16 that `rows` takes a number for the sum of: 1, or 3. Of three `band` makes [unit of two
    /// blocks][parts] planes of pairs, a channel of each block in a lane, and `rows` panels of the weights of single
    /// channels.
    int parts = 1;
    void (*rounded_band)(BandJob const&) = nullptr;  ///< the same of X of bf16, whose elements are two blocks of these
    /// Of two that are rounded: pairs[i] = {even[i], odd[i]}; `odd` null: zeros.
    void (*round_pairs)(float const* even, float const* odd, float* pairs, int64_t count) = nullptr;
    int read_behind = 0;       ///< positions behind those of a job that are read, and nothing made of them
    bool whole_units = false;  ///< weights of units that are not full come with zeros; no `first_inner`, none planar
    double speed = 1;          ///< products in a time, over those of vectors of one channel in a lane
};
/// Whether of so many output channels the last block is multiplied by half vectors (`RowJob::half`).
bool ends_in_half(int block, int64_t out_channels);
TileIsa const& tile_avx2();
TileIsa const& tile_avx512();
TileIsa const& tile_avx512bf16();
/// That of AVX-512 BF16, but rows by tiles (AMX).
TileIsa const& tile_avx512amx();
/// Tiles (AMX) for f32, in three parts.
TileIsa const& tile_split_avx512amx();
/// The same two with other rows.
TileIsa with_tiles(void (*rows)(RowJob const&));
TileIsa with_split_tiles(void (*rows)(RowJob const&));

}  // namespace refactor::kernel
