#pragma once
#include "attention/attention.h"
#include "cuda/source_text.h"

namespace refactor::kernel::cuda {

/// What the code of a generated attention depends on.
struct AttentionKind {
    DataType dtype = DataType::F32, mask = DataType::Undefined;
    AttentionInfo info;
    bool wide = false;   ///< indices need 64 bits
    int values = 64;     ///< value columns of a block (tiled) or 256 of them (rows)
    bool vector = true;  ///< rows of Q and K (of K and V in `row_attention_source`) are read several elements at a time
    int key_lanes = 32;  ///< threads that read a row of K together, in `row_attention_source`

    std::string key() const;
};

/// The argument of all functions after the addresses of Q, K, V, mask, sinks, Y and partial results.
struct AttentionWords {
    int64_t batch, heads, kv_heads, queries, keys, depth, value_depth;
    AttentionPlace q, k, v, y;
    int64_t mask_step[4];
    int64_t query_tiles = 1, value_tiles = 1, splits = 1, keys_each = 0;
    int64_t past = 0;  ///< keys of the first piece of a cache

    AttentionWords(AttentionShape const&);
};

inline constexpr int kAttentionQueries = 64, kAttentionKeys = 64;  ///< of a tile
inline constexpr int kRowKeys = 256;     ///< a block of `row_attention_source` takes at a time
inline constexpr int kMostDepth = 1024;  ///< of such a block

/// `rg_attention`: a block has 64 queries of a head, walks over blocks of 64 keys and keeps sums of `values` columns.
/// Source: FlashAttention, arXiv 2205.14135, algorithm 1.
std::string tiled_attention_source(AttentionKind const&);
/// `rg_attention`: a block has one query and a part of the keys; `rg_attention_join` joins the parts. Source:
/// Flash-Decoding, Dao et al. 2023.
std::string row_attention_source(AttentionKind const&);

/// What all of them share: types, constants, the argument with more `addresses` (", a, b"), and functions of scores and
/// results, which read elements of K and V by `key_of` and `value_of` of `operands`.
std::string attention_beginning(AttentionKind const&, char const* addresses, char const* operands);
/// `largest` and `total` of a warp, and `rg_attention_join`.
extern char const* const kAttentionJoin;
/// The bodies of both.
extern char const *const kAttentionTiles, *const kAttentionRows;

}  // namespace refactor::kernel::cuda
