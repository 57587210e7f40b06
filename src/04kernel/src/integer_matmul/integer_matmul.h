#pragma once
#include "integer_matmul/integer_product.h"
#include "kernel/ops/integer.h"
#include "matmul/matmul.h"
#include "reduce/cpu_kernel.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel {

/// Operands that integer products and convolutions have in the same places, as types.
struct IntegerTypes {
    bool a_signed = false, b_signed = false;
    DataType y = DataType::Undefined, residual = DataType::Undefined;

    /// Why the operands are none of such a product, or empty.
    std::string init(Request const&, IntegerResult const&);
};

/// An element of a zero point or operand of type u8 or i8.
inline int32_t byte_at(void const* data, bool is_signed, int64_t i) {
    return is_signed ? static_cast<int8_t const*>(data)[i] : static_cast<uint8_t const*>(data)[i];
}

/// What is added to a scaled sum.
struct SumAddends {
    float shift = 0;
    void const* residual = nullptr;  ///< all of it
    DataType residual_type = DataType::Undefined;

    float residual_at(IntegerResult const& result, int64_t i) const {
        if (!residual) return 0;
        auto value = residual_type == DataType::F32
                         ? static_cast<float const*>(residual)[i]
                         : static_cast<float>(byte_at(residual, residual_type == DataType::I8, i));
        return (value - static_cast<float>(result.residual_zero)) * result.residual_scale;
    }
};

/// Scalar definition of what becomes of a sum: stores it at `y[i]`.
inline void store_sum(DataType type, IntegerResult const& result, void* y, int64_t i, uint32_t sum, float scale,
                      int32_t zero, SumAddends const& addends) {
    if (type == DataType::I32) {
        static_cast<uint32_t*>(y)[i] = sum;
        return;
    }
    auto value = static_cast<float>(static_cast<int32_t>(sum)) * scale;
    if (result.rounded)
        value = std::min(std::max(std::nearbyint(value), result.middle_low), result.middle_high) * result.middle_scale;
    value += addends.shift;
    if (result.slope != 1) value = std::max(value * result.slope, value);  // NaN stays
    value += addends.residual_at(result, i);
    value = std::min(std::max(value, result.relu ? std::max(0.f, result.low) : result.low), result.high);
    if (type == DataType::F32) {
        static_cast<float*>(y)[i] = value;
        return;
    }
    auto low = static_cast<float>((type == DataType::I8 ? -128 : 0) - zero), high = low + 255;
    value = std::nearbyint(value);
    value = value >= low ? value : low;
    static_cast<uint8_t*>(y)[i] = static_cast<uint8_t>(static_cast<int32_t>(value <= high ? value : high) + zero);
}

/// A zero point for each row (of A) or column (of B), or one for all: how it advances along the matrices of a batch and
/// within one.
struct ZeroSteps {
    int64_t matrix = 0, element = 0;
    /// `count` zero points for matrices with `elements` rows (columns) each; nothing if they do not fit.
    bool init(int64_t count, int64_t elements, int64_t matrices) {
        if (count == 1) return true;
        element = 1, matrix = count == elements ? 0 : elements;
        return count == elements || count == elements * matrices;
    }
};

/// Sizes of an integer product.
struct IntegerShape : MatMulShape {
    ZeroSteps a_zero, b_zero;
    bool many_scales = false;

    /// Why the operands do not fit together, or empty.
    std::string init(BindArgs const&);
    /// Number of the matrix of A (B) that begins at an element.
    int64_t a_matrix(int64_t offset) const { return m * k != 0 ? offset / (m * k) : 0; }
    int64_t b_matrix(int64_t offset) const { return k * n != 0 ? offset / (k * n) : 0; }
};

/// What a product stores for an output type.
IntegerStore store_of(DataType y);
/// What becomes of sums, for the loops.
IntegerTail tail_of(IntegerResult const& result, DataType y, void const* y_zero, DataType residual);

/// Why products cannot be made by tiles (AMX), or empty.
std::string why_not_tiles(Request const&);

/// Register tiles over panels of B (packed once if it is constant): with these loops, which need `Isa`; then by
/// instruction set.
MaybeKernel make_integer_matmul(IntegerMatMulInfo const&, Request const&, Isa, IntegerFunctions const& (*loops)());
MaybeKernel make_integer_matmul_amx(IntegerMatMulInfo const&, Request const&);
MaybeKernel make_integer_matmul_vnni(IntegerMatMulInfo const&, Request const&);
MaybeKernel make_integer_matmul_avx512(IntegerMatMulInfo const&, Request const&);
MaybeKernel make_integer_matmul_avx2vnni(IntegerMatMulInfo const&, Request const&);
MaybeKernel make_integer_matmul_avx2(IntegerMatMulInfo const&, Request const&);
MaybeKernel make_integer_matmul_avx2_bytes(IntegerMatMulInfo const&, Request const&);
MaybeKernel make_integer_matmul_avx2_narrow(IntegerMatMulInfo const&, Request const&);
MaybeKernel make_integer_matmul_reference(IntegerMatMulInfo const&, Request const&);

}  // namespace refactor::kernel
