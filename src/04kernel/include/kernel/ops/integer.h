#pragma once
#include "kernel/ops/conv.h"

namespace refactor::kernel {

/// Products of quantised numbers: operands are u8 or i8, each with a zero point that is subtracted from its elements;
/// sums are exact modulo 2^32. The type of the output says what becomes of a sum:
///
/// - i32: it is stored; no scale, no zero point;
/// - f32: `sum * scale`;
/// - u8, i8: `saturate(round(sum * scale) + y_zero)`, rounding to nearest even.
///
/// `scale` (f32) is the product of the operands' scales, divided by the output's.
struct IntegerResult {
    bool relu = false;  ///< not with i32: negative results become zero
    bool operator==(IntegerResult const&) const = default;
};

/// Matrix product with numpy broadcasting of leading dimensions.
///
/// Inputs, in fixed places (null where absent): A [..., M, K]; B [..., K, N]; zero point of A, one element, [M] or
/// [..., M, 1] with A's leading sizes; of B, one element, [N] or [..., 1, N] with B's leading sizes; bias i32 [N];
/// scale f32 [1] or [N]; zero point of Y, one element of its type. Output [..., M, N]. Source: ONNX MatMulInteger-10,
/// QLinearMatMul-21.
struct IntegerMatMulInfo {
    static constexpr char const* kType = "IntegerMatMul";
    static constexpr size_t kA = 0, kB = 1, kAZero = 2, kBZero = 3, kBias = 4, kScale = 5, kYZero = 6, kInputs = 7;
    IntegerResult result;
    std::string attributes() const;
};
Candidates candidates(IntegerMatMulInfo const&, Request const&);

/// Convolution; what is outside of X counts as its zero point.
///
/// Inputs, in the places of IntegerMatMulInfo: X [N, C, spatial…]; W [M, C/group, kernel…]; zero point of X, one
/// element; of W, one element or [M]; bias i32 [M]; scale f32 [1] or [M]; zero point of Y. Output [N, M, spatial…].
/// Symbolic pads are params as in ConvInfo. Source: ONNX ConvInteger-10, QLinearConv-10.
struct IntegerConvInfo {
    static constexpr char const* kType = "IntegerConv";
    Window window;
    int64_t group = 1;
    IntegerResult result;
    std::string attributes() const;
};
Candidates candidates(IntegerConvInfo const&, Request const&);

/// Product with a transposed matrix whose numbers are packed and share a scale in blocks along k: `Y = A · Wᵀ + bias`,
/// `W[j, p] = (q - zero) * scale`.
///
/// Inputs, in fixed places (null where absent): A f32 [..., M, k]; Q u8 [n, blocks, block * bits / 8], low bits first;
/// scales f32 [n * blocks]; zero points, f32 [n * blocks] or u8 packed [n, ceil(blocks * bits / 8)], 2^(bits - 1) if
/// absent; the block of every p, i32 [k], p / block if absent; bias f32 [n]. Output f32 [..., M, n]. Source:
/// com.microsoft MatMulNBits-1.
struct BlockMatMulInfo {
    static constexpr char const* kType = "BlockMatMul";
    static constexpr size_t kA = 0, kQ = 1, kScales = 2, kZeros = 3, kBlocks = 4, kBias = 5, kInputs = 6;
    int64_t n = 0, k = 0;
    int32_t bits = 4;  ///< 2, 4 or 8
    int64_t block = 32;
    int64_t blocks() const { return (k + block - 1) / block; }
    std::string attributes() const;
};
Candidates candidates(BlockMatMulInfo const&, Request const&);

}  // namespace refactor::kernel
