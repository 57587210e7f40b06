#pragma once
#include "conv/geometry.h"
#include "cuda/source_text.h"

namespace refactor::kernel::cuda {

/// What the code of a generated convolution depends on.
struct ConvKind {
    DataType dtype = DataType::F32;
    bool transposed = false;
    bool channels_last = false;  ///< an output for each thread
    Epilogue epilogue;
    int rank = 2;         ///< axes that are walked, the last ones of three
    bool wide = false;    ///< indices need 64 bits
    bool vector = false;  ///< weights of a row are read several at a time

    static ConvKind of(ConvInfo const& info) {
        ConvKind kind;
        kind.channels_last = info.channels_last, kind.epilogue = info.epilogue;
        return kind;
    }
    static ConvKind of(ConvTransposeInfo const& info) {
        ConvKind kind;
        kind.transposed = true, kind.channels_last = info.channels_last, kind.epilogue = info.epilogue;
        return kind;
    }
    std::string key() const;
};

/// Sums that the 256 threads of a block hold, and the length of a slab.
struct ConvTile {
    int rows, columns, depth, rows_each, columns_each;
};
/// For few output channels; for few outputs, or f64; for many.
inline constexpr ConvTile kConvTiles[] = {{32, 128, 16, 4, 4}, {64, 64, 16, 4, 4}, {128, 128, 8, 8, 8}};

/// The argument of all functions after the addresses of X, W, bias, residual, Y and partial sums.
struct ConvWords {
    int64_t batch, groups, group_in, group_out;  ///< channels of a group
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    int64_t tap_step[3];  ///< between taps that one output of a transposed convolution reads
    int64_t row_tiles = 1, column_tiles = 1, splits = 1, slabs_each = 0;

    ConvWords(Geometry const& g);
};

/// `rg_conv`: an output for each thread. Source: ONNX Conv-11, ConvTranspose-11.
std::string direct_conv_source(ConvKind const&);
/// `rg_conv`: an implicit matrix product, tiles of [channels, positions] of one group (and, transposed, of the outputs
/// that read the same taps); if there are several splits of the inner size, they go to `partial`, and `rg_conv_sum`
/// adds them up. Source: Chetlur et al., arXiv 1410.0759, section 3.
std::string implicit_conv_source(ConvKind const&, ConvTile const&);

}  // namespace refactor::kernel::cuda
