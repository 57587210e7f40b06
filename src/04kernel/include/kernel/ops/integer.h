#pragma once
#include "kernel/ops/conv.h"

#include <limits>

namespace refactor::kernel {

/// Products of quantised numbers: operands are u8 or i8, each with a zero point that is subtracted from its elements;
/// sums are exact modulo 2^32. The type of the output says what becomes of a sum:
///
/// - i32: it is stored; no scale, no zero point;
/// - f32: `sum * scale`;
/// - u8, i8: `saturate(round(sum * scale) + y_zero)`, rounding to nearest even.
///
/// `scale` (f32) is the product of the operands' scales, divided by the output's. More may happen to `v = sum * scale`
/// before it is stored, in this order (none of it with i32):
///
/// 1. `rounded`: `v = min(max(round(v), middle_low), middle_high) * middle_scale`, a quantisation and its inverse;
/// 2. an input `shift` (f32) is added;
/// 3. negative numbers are multiplied by `slope`, 0 to 1: a leaky ReLU;
/// 4. an input `residual` of Y's shape is added: `v += (residual - residual_zero) * residual_scale`;
/// 5. `v = min(max(v, low), high)`.
struct IntegerResult {
    bool relu = false;  ///< negative results become zero: as low = 0
    bool rounded = false;
    float middle_low = 0, middle_high = 0, middle_scale = 1;
    float slope = 1;
    float residual_scale = 1;
    int32_t residual_zero = 0;
    float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
    bool operator==(IntegerResult const&) const = default;
    std::string attributes() const;
};

/// Matrix product with numpy broadcasting of leading dimensions.
///
/// Inputs, in fixed places (null where absent): A [..., M, K]; B [..., K, N]; zero point of A, one element, [M] or
/// [..., M, 1] with A's leading sizes; of B, one element, [N] or [..., 1, N] with B's leading sizes; bias i32 [N];
/// scale f32 [1] or [N]; zero point of Y, one element of its type; shift f32 [N]; residual [..., M, N] of u8, i8 or
/// f32. Output [..., M, N]. Source: ONNX MatMulInteger-10, QLinearMatMul-21.
struct IntegerMatMulInfo {
    static constexpr char const* kType = "IntegerMatMul";
    static constexpr size_t kA = 0, kB = 1, kAZero = 2, kBZero = 3, kBias = 4, kScale = 5, kYZero = 6, kShift = 7,
                            kResidual = 8, kInputs = 9;
    IntegerResult result;
    std::string attributes() const;
};
Candidates candidates(IntegerMatMulInfo const&, Request const&);

/// Convolution; what is outside of X counts as its zero point.
///
/// Inputs, in the places of IntegerMatMulInfo: X [N, C, spatial…]; W [M, C/group, kernel…]; zero point of X, one
/// element; of W, one element or [M]; bias i32 [M]; scale f32 [1] or [M]; zero point of Y; shift f32 [M]; residual of
/// Y's shape. Output [N, M, spatial…]. Symbolic pads are params as in ConvInfo. With `channels_last` X, Y and residual
/// have their channels behind the spatial axes: [N, spatial…, C]. Source: ONNX ConvInteger-10, QLinearConv-10.
struct IntegerConvInfo {
    static constexpr char const* kType = "IntegerConv";
    Window window;
    int64_t group = 1;
    IntegerResult result;
    bool channels_last = false;
    std::string attributes() const;
};
Candidates candidates(IntegerConvInfo const&, Request const&);

/// Pooling of bytes with their channels behind the spatial axes. Input X [N, spatial…, C] of u8 or i8; the output's
/// spatial sizes (ceil_mode resolved) are the operand's. Positions outside of X do not count, but pads do as zeros with
/// `count_include_pad` (Average).
///
/// Max: Y of X's type. Average: the mean of `x - x_zero`, times `scale`, as f32, or rounded to nearest even, plus
/// `y_zero`, saturated to X's type; at most 2^23 positions under a window. Symbolic pads are params as in ConvInfo.
struct IntegerPoolInfo {
    static constexpr char const* kType = "IntegerPool";
    PoolKind kind = PoolKind::Max;
    Dims kernel = {};  ///< empty: all positions
    Window window = {};
    float scale = 1;
    int32_t x_zero = 0, y_zero = 0;
    bool count_include_pad = false;
    std::string attributes() const;
};
Candidates candidates(IntegerPoolInfo const&, Request const&);

/// Product with a transposed matrix whose numbers are packed and share a scale in blocks along k: `Y = A · Wᵀ + bias`,
/// `W[j, p] = (q - zero) * scale`.
///
/// Inputs, in fixed places (null where absent): A f32 [..., M, k]; Q u8 [n, blocks, block * bits / 8], low bits first;
/// scales f32 [n * blocks]; zero points, f32 [n * blocks] or u8 packed [n, ceil(blocks * bits / 8)], 2^(bits - 1) if
/// absent; the block of every p, i32 [k], p / block if absent; bias f32 [n]. Output f32 [..., M, n]. On a GPU A and the
/// output may also both be f16 or bf16. Source: com.microsoft MatMulNBits-1 (`may_round`: accuracy_level 4).
struct BlockMatMulInfo {
    static constexpr char const* kType = "BlockMatMul";
    static constexpr size_t kA = 0, kQ = 1, kScales = 2, kZeros = 3, kBlocks = 4, kBias = 5, kInputs = 6;
    int64_t n = 0, k = 0;
    int32_t bits = 4;  ///< 2, 4 or 8
    int64_t block = 32;
    /// A may be rounded to 8 bits, with a scale of each row and block: within 1/254 of the block's largest element.
    bool may_round = false;
    int64_t blocks() const { return (k + block - 1) / block; }
    std::string attributes() const;
};
Candidates candidates(BlockMatMulInfo const&, Request const&);
/// Whether an instruction set makes products of rounded rows faster than of floats.
bool rounds_rows(BlockMatMulInfo const&, Isa);

/// `GatherMatMulInfo` with matrices whose numbers are packed: each is that of a `BlockMatMulInfo`.
///
/// Inputs, in fixed places (null where absent): X f32 with rows of k elements; those of the product, with E matrices
/// behind each other: Q u8 [E, n, blocks, block * bits / 8], scales f32 [E * n * blocks], zero points, bias f32 [E, n];
/// indices as there in the place of blocks. Y f32. Source: com.microsoft QMoE-1.
struct GatherBlockMatMulInfo {
    static constexpr char const* kType = "GatherBlockMatMul";
    static constexpr size_t kIndices = BlockMatMulInfo::kBlocks;
    BlockMatMulInfo product;
    int64_t matrices = 1;
    std::string attributes() const { return std::to_string(matrices) + "x" + product.attributes(); }
};
Candidates candidates(GatherBlockMatMulInfo const&, Request const&);

}  // namespace refactor::kernel
