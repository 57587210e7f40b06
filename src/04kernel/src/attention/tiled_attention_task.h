#pragma once
#include "attention/attention.h"
#include "attention/scores.h"
#include "matmul/rounded_product.h"

namespace refactor::kernel {

/// Up to so many rows, keys and values are read in place.
constexpr int64_t kFewRows = 12;

/// Loops that an attention in blocks is made of.
struct AttentionFunctions {
    ProductFunctions const& product;
    ScoreFunctions const& scores;
    RoundedFunctions const* rounded = nullptr;  ///< for products with what is packed; null: in f32
};

/// Operands that are bf16 in memory, for `rounded` functions: Q, K and V; Y.
struct NarrowAttention {
    bool qkv = false, y = false;
};

/// Online softmax over blocks of keys; both products go through the register tiles of MatMul.
std::unique_ptr<runtime::Task> make_tiled_attention(AttentionFunctions const&, AttentionInfo const&,
                                                    AttentionShape const&, NarrowAttention, int threads);

}  // namespace refactor::kernel
