#pragma once
#include "cuda/source_text.h"
#include "kernel/kernel.h"

#include <string>

/// Text of generated kernels that combine many elements: reductions, softmax, normalisation, pooling, recurrent layers.
/// Each family is a few templates; a kernel is one instance of them, so that what the sizes decide (lanes of a row,
/// elements of a vector, items in registers) is a constant of the code and the sizes themselves are arguments.
namespace refactor::kernel::cuda {

/// Types with the bits of f16 and bf16, what they are computed in, and the ways in which threads combine what each of
/// them accumulated. Follows `kPrelude`.
extern char const* const kRowsPrelude;
/// `rg_reduce_rows`, `rg_reduce_columns`, `rg_reduce_parts` and the accumulators of every kind of reduction.
extern char const* const kReduceSource;
/// `rg_softmax_registers`, `rg_softmax_long` and `rg_softmax_columns`.
extern char const* const kSoftmaxSource;
/// `rg_normalize_registers`, and `rg_normalize_parts` with `rg_normalize_apply` for sets that are shared by blocks.
extern char const* const kNormalizeSource;

/// `rg_pool`, `rg_pool_bytes`, `rg_lrn`, and max-unpooling in three steps.
extern char const* const kWindowSource;

/// `rg_quantize` and `rg_dequantize` over types of 2 to 32 bits.
extern char const* const kQuantizeSource;

/// `rg_convert` and `rg_same_bits`; follows `kQuantizeSource`.
extern char const* const kConvertSource;
/// `rg_recurrent_step` and `rg_recurrent_states`; behind them `rg_recurrent_sequence` and `rg_recurrent_resident`.
extern char const *const kRecurrentSource, *const kRecurrentSequenceSource, *const kRecurrentResidentSource;

/// `rg_integer_matmul` over bytes; behind it `rg_integer_conv` and `rg_integer_conv_narrow`.
extern char const *const kIntegerSource, *const kIntegerConvSource;

/// `rg_random` and `rg_multinomial`.
extern char const* const kRandomSource;

/// `RG_GLOBAL name(rg_words<words> a) { call(a.w); }`, in clusters of so many blocks.
std::string instance_text(std::string const& name, size_t words, std::string const& call, int cluster = 1);

/// Elements of at most 16 bytes together that divide every one of `steps`.
int vector_width(DataType type, std::span<int64_t const> steps);
/// The power of two from `x` on, at least 1.
constexpr int64_t power_of_two(int64_t x) {
    int64_t p = 1;
    while (p < x) p *= 2;
    return p;
}
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Blocks that keep a large card busy: 132 multiprocessors (H200), two blocks of 256 threads each to hide latency.
inline constexpr int64_t kBusyBlocks = 264;

}  // namespace refactor::kernel::cuda
