#pragma once
#include "kernel/epilogue.h"
#include "kernel/kernel.h"

namespace refactor::kernel {

/// Sizes of a sliding window, one entry per spatial axis (1 to 3). Pads are explicit: `auto_pad` has been resolved by
/// the front end.
struct Window {
    Dims strides, dilations, pads_begin, pads_end;
    bool operator==(Window const&) const = default;
};
std::string to_string(Window const&);

/// Convolution. Inputs: X [N, C, spatial…], W [M, C/group, kernel…], bias [M] if `epilogue.bias`, residual of Y's shape
/// if `epilogue.residual`. X, Y, residual may be Plain or Blocked; W is Plain (packed by the kernel). Source: ONNX
/// Conv-11.
///
/// If the pads are symbolic (SAME with unknown sizes) they are the operator's params: begins, then ends;
/// `window.pads_*` are then ignored.
///
/// With `channels_last`, on a GPU only, X is [N, spatial…, C], W [M, kernel…, C/group], Y and residual [N, spatial…,
/// M]. With `may_round`, on a CPU only, X and W may be rounded to bf16; sums stay f32. Then depthwise convolutions, and
/// those of groups of a part of a block, take X, Y and residual of bf16 in Blocked32 beside W and bias of f32.
struct ConvInfo {
    static constexpr char const* kType = "Conv";
    Window window;
    int64_t group = 1;
    Epilogue epilogue;
    bool channels_last = false;
    bool may_round = false;
    std::string attributes() const;
};
Candidates candidates(ConvInfo const&, Request const&);
/// Whether cuDNN's best plan with this activation inside is slow. On an H200 in f16, those with Clip took 28 to 189 µs
/// with windows of one element, where others take 6, and 10 instead of 8 with 3 × 3; SiLU with 3 × 3 gains 10 to 25 %.
/// LeakyRelu, which the library is told as Clip is, is taken to be like it.
bool is_slow_in_cudnn(Activation const&);
/// Multiply-adds of vectors that a convolution of one group and without a residual saves, at each position of Y, if Y
/// is Plain, because its channels fill a small part of these blocks; 0 or less: none. X with fewer channels than a
/// block has is Plain, too. `taps`: of the window.
double few_outputs_saving(Layout blocked, int64_t in_channels, int64_t taps, int64_t out_channels);

/// Transposed convolution. Inputs: X [N, C, spatial…], W [C, M/group, kernel…], bias, residual as in ConvInfo. The
/// output size is the output operand's; pads_begin decide where it starts. With `channels_last`, on a GPU only, X is
/// [N, spatial…, C], W [C, kernel…, M/group], Y and residual [N, spatial…, M]. Source: ONNX ConvTranspose-11.
struct ConvTransposeInfo {
    static constexpr char const* kType = "ConvTranspose";
    Window window;
    int64_t group = 1;
    Epilogue epilogue;
    bool channels_last = false;
    bool may_round = false;  ///< as in ConvInfo
    std::string attributes() const;
};
Candidates candidates(ConvTransposeInfo const&, Request const&);

enum class PoolKind : uint8_t { Max, Average, Sum };
/// Sliding-window pooling over the spatial axes. Input [N, C, spatial…], Plain or Blocked; output sizes (ceil_mode
/// resolved) are the output operand's. Average divides by the number of elements inside the input, or, if
/// `count_include_pad`, inside the padded input. Pads that are symbolic are params, as in ConvInfo. With `indices`,
/// output 1 (i64) holds flat positions in the Plain input (`column_major`: storage_order 1). NaN propagates through
/// Max. bf16 may be in Blocked32, averages of which are rounded once. Source: ONNX MaxPool-12, AveragePool-19.
struct PoolInfo {
    static constexpr char const* kType = "Pool";
    PoolKind kind = PoolKind::Max;
    Dims kernel;
    Window window;
    bool count_include_pad = false, column_major = false;
    std::string attributes() const;
};
Candidates candidates(PoolInfo const&, Request const&);

/// Pooling (Max or Average) over all spatial positions: [N, C, spatial…] → [N, C, 1…]. Same layout on both sides,
/// or bf16 in Blocked32 to f32 in Blocked16. Source: ONNX GlobalAveragePool-1.
struct GlobalPoolInfo {
    static constexpr char const* kType = "GlobalPool";
    PoolKind kind = PoolKind::Average;
    std::string attributes() const;
};
Candidates candidates(GlobalPoolInfo const&, Request const&);

/// Copies between layouts: Plain ↔ Blocked, channels zero-padded. One side may be f32, the other bf16.
///
/// With `channels_last` the side that is Plain is [N, …, C] beside the other's [N, C, …]; what lies between are the
/// same positions, divided into axes as each side likes.
struct ReorderInfo {
    static constexpr char const* kType = "Reorder";
    bool channels_last = false;
    std::string attributes() const { return channels_last ? "channels_last" : ""; }
};
Candidates candidates(ReorderInfo const&, Request const&);

}  // namespace refactor::kernel
