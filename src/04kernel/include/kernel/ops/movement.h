#pragma once
#include "kernel/kernel.h"

/// Operators that only move elements. All take any fixed-size dtype of at least one byte; strings are refused.
namespace refactor::kernel {

/// Permutes axes: output axis i is input axis perm[i]. Source: ONNX Transpose-13.
struct TransposeInfo {
    static constexpr char const* kType = "Transpose";
    Dims perm;
    std::string attributes() const;
};
Candidates candidates(TransposeInfo const&, Request const&);

/// Images [N, C, spatial…] as [N, spatial…, 16 bytes of channels], zeros behind the C that there are: how tensor cores
/// read first layers. f32, f16 or bf16, converted to the type of the output. On a GPU only.
struct ChannelVectorsInfo {
    static constexpr char const* kType = "ChannelVectors";
    std::string attributes() const { return {}; }
};
Candidates candidates(ChannelVectorsInfo const&, Request const&);

/// Joins any number of inputs along `axis`. Accepts Blocked operands if axis is 1; whole blocks of channels are runs of
/// bytes. On a GPU f32, f16 and bf16 mixed, converted to 1 or 2 outputs. Source: ONNX Concat-13.
struct ConcatInfo {
    static constexpr char const* kType = "Concat";
    int64_t axis = 0;
    std::string attributes() const;
};
Candidates candidates(ConcatInfo const&, Request const&);

/// Cuts the input along `axis` into its outputs, whose operands tell the sizes. Accepts Blocked operands if axis is 1;
/// whole blocks of channels are runs of bytes. Source: ONNX Split-18.
struct SplitInfo {
    static constexpr char const* kType = "Split";
    int64_t axis = 0;
    std::string attributes() const;
};
Candidates candidates(SplitInfo const&, Request const&);

/// y[i…] = x[start + i * step…]; the params are the starts of all axes, the output operand tells the sizes. Accepts
/// Blocked operands if the channels are whole blocks, or all that is cut, with a step of 1. Source: ONNX Slice-13.
struct SliceInfo {
    static constexpr char const* kType = "Slice";
    Dims steps;  ///< one per axis, non-zero
    std::string attributes() const;
};
Candidates candidates(SliceInfo const&, Request const&);

/// Broadcasts the input to the output's shape (Expand, and Tile where `tile`: output size = input size × repeats).
/// Source: ONNX Expand-13, Tile-13.
struct ExpandInfo {
    static constexpr char const* kType = "Expand";
    bool tile = false;
    std::string attributes() const;
};
Candidates candidates(ExpandInfo const&, Request const&);

enum class PadMode : uint8_t { Constant, Reflect, Edge, Wrap };
/// Params: begins of all axes (negative crops); the output operand tells the rest. Input 1 (optional): the scalar
/// constant. Blocked operands: f32 or bf16 (the constant may be f32, and is rounded) whose N and C stay. Source: ONNX
/// Pad-19.
struct PadInfo {
    static constexpr char const* kType = "Pad";
    PadMode mode = PadMode::Constant;
    std::string attributes() const;
};
Candidates candidates(PadInfo const&, Request const&);

/// Takes slices along `axis` at i32/i64 indices; negative indices count from the end; out of range throws InvalidInput.
/// Source: ONNX Gather-13.
struct GatherInfo {
    static constexpr char const* kType = "Gather";
    int64_t axis = 0;
    std::string attributes() const;
};
Candidates candidates(GatherInfo const&, Request const&);

/// Source: ONNX GatherElements-13.
struct GatherElementsInfo {
    static constexpr char const* kType = "GatherElements";
    int64_t axis = 0;
    std::string attributes() const;
};
Candidates candidates(GatherElementsInfo const&, Request const&);

/// Source: ONNX GatherND-13.
struct GatherNDInfo {
    static constexpr char const* kType = "GatherND";
    int64_t batch_dims = 0;
    std::string attributes() const;
};
Candidates candidates(GatherNDInfo const&, Request const&);

enum class ScatterReduction : uint8_t { None, Add, Mul, Min, Max };
/// Inputs: data, indices, updates. `axis < 0`: ScatterND, else ScatterElements along `axis`. Source: ONNX ScatterND-18,
/// ScatterElements-18.
struct ScatterInfo {
    static constexpr char const* kType = "Scatter";
    int64_t axis = -1;
    ScatterReduction reduction = ScatterReduction::None;
    std::string attributes() const;
};
Candidates candidates(ScatterInfo const&, Request const&);

enum class ResizeMode : uint8_t { Nearest, Linear, Cubic };
enum class ResizeCoordinates : uint8_t {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    TfCropAndResize,
    TfHalfPixelForNn
};
enum class ResizeRounding : uint8_t { RoundPreferFloor, RoundPreferCeil, Floor, Ceil };
/// Resamples every axis; sizes come from the operands. `scales` (one per axis, empty: output size / input size) feed
/// the coordinate formula as the specification wants. Blocked operands: only if N and C are not resized.
/// bf16 is interpolated in f32. Source: ONNX Resize-19.
struct ResizeInfo {
    static constexpr char const* kType = "Resize";
    ResizeMode mode = ResizeMode::Nearest;
    ResizeCoordinates coordinates = ResizeCoordinates::HalfPixel;
    ResizeRounding rounding = ResizeRounding::RoundPreferFloor;
    float cubic_a = -0.75f, extrapolation = 0;
    bool exclude_outside = false, antialias = false;
    std::vector<float> scales, roi;
    std::string attributes() const;
};
Candidates candidates(ResizeInfo const&, Request const&);

/// Copies input 0 to the output (same number of bytes, shapes may differ).
struct CopyInfo {
    static constexpr char const* kType = "Copy";
    std::string attributes() const { return {}; }
};
Candidates candidates(CopyInfo const&, Request const&);

/// No input: writes the params as an i64 tensor (a shape that is needed as data).
struct ShapeValuesInfo {
    static constexpr char const* kType = "ShapeValues";
    std::string attributes() const { return {}; }
};
Candidates candidates(ShapeValuesInfo const&, Request const&);

/// Inputs start, delta (scalars); the output operand tells the length. If both are missing the params are start and
/// delta. Source: ONNX Range-11.
struct RangeInfo {
    static constexpr char const* kType = "Range";
    std::string attributes() const { return {}; }
};
Candidates candidates(RangeInfo const&, Request const&);

/// Keeps the upper or lower triangle of the last two axes; param 0: k. Source: ONNX Trilu-14.
struct TriluInfo {
    static constexpr char const* kType = "Trilu";
    bool upper = true;
    std::string attributes() const;
};
Candidates candidates(TriluInfo const&, Request const&);

/// Inputs indices, values [off, on]; depth is the output's size at `axis`. Source: ONNX OneHot-11.
struct OneHotInfo {
    static constexpr char const* kType = "OneHot";
    int64_t axis = -1;
    std::string attributes() const;
};
Candidates candidates(OneHotInfo const&, Request const&);

}  // namespace refactor::kernel
