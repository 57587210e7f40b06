#pragma once
#include "kernel/kernel.h"

namespace refactor::kernel {

enum class ReduceKind : uint8_t { Sum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum, LogSumExp };
/// Reduction over `axes` (sorted, non-negative; the output operand's rank tells keepdims). Empty sets give the identity
/// (Max: -inf or the smallest integer). X may be Blocked if `axes` is 1 alone; Y is Plain. Floats accumulate in f32
/// (f64 in f64) pairwise or in vector lanes; integers in their own type. Source: ONNX Reduce*-18/20.
struct ReduceInfo {
    static constexpr char const* kType = "Reduce";
    ReduceKind kind = ReduceKind::Sum;
    Dims axes;
    std::string attributes() const;
};
Candidates candidates(ReduceInfo const&, Request const&);

/// ArgMax / ArgMin over one axis, output i64. Source: ONNX ArgMax-13.
struct ArgReduceInfo {
    static constexpr char const* kType = "ArgReduce";
    bool min = false, select_last_index = false;
    int64_t axis = 0;
    std::string attributes() const;
};
Candidates candidates(ArgReduceInfo const&, Request const&);

/// Softmax or log-softmax over the axes [axis, axis + axes). One pass over memory per row. Source: ONNX Softmax-13
/// (axes = 1), Softmax-1 (axes to the end).
struct SoftmaxInfo {
    static constexpr char const* kType = "Softmax";
    int64_t axis = 0, axes = 1;
    bool log = false;
    bool nan_to_zero = false;  ///< a row of NaN (all scores -inf) becomes zeros
    std::string attributes() const;
};
Candidates candidates(SoftmaxInfo const&, Request const&);

/// Layer or RMS normalisation over the axes from `axis` on: `(x - mean) / sqrt(var + epsilon) * scale + bias`. Inputs
/// X, scale, bias (optional), and, if `residual`, R of X's shape, which is added to X first (and the sum is output 1 if
/// there is one). On a CPU Y of f32 operands may be bf16. Source: ONNX LayerNormalization-17, RMSNormalization-23.
struct LayerNormInfo {
    static constexpr char const* kType = "LayerNorm";
    int64_t axis = -1;  ///< non-negative when given to a kernel
    float epsilon = 1e-5f;
    bool rms = false, has_bias = false, residual = false;
    std::string attributes() const;
};
Candidates candidates(LayerNormInfo const&, Request const&);

/// Normalisation of each (n, group of channels) over its channels and all positions; `groups == 0` means one group per
/// channel (InstanceNormalization). Inputs X [N, C, spatial…], scale [C], bias [C]. Source: ONNX
/// InstanceNormalization-6, GroupNormalization-21.
struct GroupNormInfo {
    static constexpr char const* kType = "GroupNorm";
    int64_t groups = 0;
    float epsilon = 1e-5f;
    std::string attributes() const;
};
Candidates candidates(GroupNormInfo const&, Request const&);

/// Cumulative sum, or product, along `axis`. Source: ONNX CumSum-14, CumProd-26.
struct CumSumInfo {
    static constexpr char const* kType = "CumSum";
    int64_t axis = 0;
    bool exclusive = false, reverse = false, product = false;
    std::string attributes() const;
};
Candidates candidates(CumSumInfo const&, Request const&);

/// The k largest (smallest) values along `axis` and their i64 positions; k is the output's size there. Ties: the lower
/// index first. Source: ONNX TopK-11.
struct TopKInfo {
    static constexpr char const* kType = "TopK";
    int64_t axis = 0;
    bool largest = true, sorted = true;
    std::string attributes() const;
};
Candidates candidates(TopKInfo const&, Request const&);

}  // namespace refactor::kernel
