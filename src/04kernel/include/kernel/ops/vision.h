#pragma once
#include "kernel/ops/conv.h"

/// Operators of vision models that sample, gather and normalise pictures, and small dense matrices. All operands are
/// Plain.
namespace refactor::kernel {

/// Local response normalisation: `y = x / (bias + alpha / size * s)^beta`, where s is the sum of squares over `size`
/// channels around (floor((size - 1) / 2) before). X [N, C, spatial…], any float. Source: ONNX LRN-13.
struct LrnInfo {
    static constexpr char const* kType = "Lrn";
    int64_t size = 1;
    float alpha = 1e-4f, beta = 0.75f, bias = 1;
    std::string attributes() const;
};
Candidates candidates(LrnInfo const&, Request const&);

enum class GridMode : uint8_t { Nearest, Linear, Cubic };
enum class GridPadding : uint8_t { Zeros, Border, Reflection };
/// Samples X [N, C, spatial…] (1 to 3 axes) at the positions grid [N, out…, axes], whose coordinates lie in [-1, 1] and
/// are listed from the last axis to the first; NaN counts as -1. Y [N, C, out…] has the type of X: any number, or with
/// Nearest anything of whole bytes. Interpolated integers are rounded towards zero. Cubic with Border moves each
/// element into the picture, not the position, as PyTorch and onnxruntime do (and `onnx.reference` does not). Source:
/// ONNX GridSample-22.
struct GridSampleInfo {
    static constexpr char const* kType = "GridSample";
    GridMode mode = GridMode::Linear;
    GridPadding padding = GridPadding::Zeros;
    bool align_corners = false;
    std::string attributes() const;
};
Candidates candidates(GridSampleInfo const&, Request const&);

/// Pools regions of interest by bilinear samples. Inputs X [N, C, H, W], rois [R, 4] as (x1, y1, x2, y2), batch indices
/// [R] i64 (out of range throws InvalidInput); output [R, C, rows, columns]. A `sampling_ratio` of 0 takes as many
/// samples as a bin covers elements. Max takes the largest weighted corner, as the standard does. Source: ONNX
/// RoiAlign-22.
struct RoiAlignInfo {
    static constexpr char const* kType = "RoiAlign";
    bool maximum = false, half_pixel = true;
    int64_t sampling_ratio = 0;
    float spatial_scale = 1;
    std::string attributes() const;
};
Candidates candidates(RoiAlignInfo const&, Request const&);

/// Maximum over the bins of regions of interest. Inputs X [N, C, H, W], rois [R, 5] as (n, x1, y1, x2, y2) (n out of
/// range throws InvalidInput); output [R, C, rows, columns], 0 where a bin is empty. Source: ONNX MaxRoiPool-22.
struct MaxRoiPoolInfo {
    static constexpr char const* kType = "MaxRoiPool";
    float spatial_scale = 1;
    std::string attributes() const;
};
Candidates candidates(MaxRoiPoolInfo const&, Request const&);

/// Adds the columns [N, C * taps, positions] of a sliding window up to pictures [N, C, spatial…] (1 to 3 axes), any
/// number. Source: ONNX Col2Im-18.
struct Col2ImInfo {
    static constexpr char const* kType = "Col2Im";
    Dims kernel;
    Window window;
    std::string attributes() const;
};
Candidates candidates(Col2ImInfo const&, Request const&);

/// The columns that a deformable convolution multiplies with its weights: X [N, C, H, W] sampled bilinearly (zeros
/// outside) at each tap's place plus offset [N, groups * taps * 2, oh, ow] (row, column), times mask
/// [N, groups * taps, oh, ow] if there is one. Output [N, C * taps, oh * ow]; C is a multiple of `groups`, channels of
/// a group share their offsets. Source: ONNX DeformConv-22.
struct DeformColumnsInfo {
    static constexpr char const* kType = "DeformColumns";
    Dims kernel;
    Window window;
    int64_t groups = 1;
    std::string attributes() const;
};
Candidates candidates(DeformColumnsInfo const&, Request const&);

/// Puts X [N, C, spatial…] at flat positions of a tensor of sizes `params` [N, C, …], zeros elsewhere; the output has
/// these sizes or larger ones, of which it fills the first part. Positions are i64 in X's shape (out of range throws
/// InvalidInput); of equal ones the last wins. Source: ONNX MaxUnpool-22.
struct MaxUnpoolInfo {
    static constexpr char const* kType = "MaxUnpool";
    std::string attributes() const { return {}; }
};
Candidates candidates(MaxUnpoolInfo const&, Request const&);

/// Reverses the first `lengths[b]` slices along `time_axis` for each b of `batch_axis`. Inputs X of any fixed-size
/// type, lengths [batch] i64 (outside of [0, time] throws InvalidInput). Source: ONNX ReverseSequence-10.
struct ReverseSequenceInfo {
    static constexpr char const* kType = "ReverseSequence";
    int64_t time_axis = 0, batch_axis = 1;
    std::string attributes() const;
};
Candidates candidates(ReverseSequenceInfo const&, Request const&);

enum class MatrixKind : uint8_t { Determinant, Inverse };
/// Of each matrix in X [..., M, M], any float, computed in f64 with partial pivoting. Output [...] or [..., M, M]; the
/// inverse of a singular matrix is not finite. Source: ONNX Det-22, com.microsoft Inverse-1.
struct MatrixInfo {
    static constexpr char const* kType = "Matrix";
    MatrixKind kind = MatrixKind::Determinant;
    std::string attributes() const;
};
Candidates candidates(MatrixInfo const&, Request const&);

}  // namespace refactor::kernel
