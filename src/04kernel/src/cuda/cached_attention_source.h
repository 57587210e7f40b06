#pragma once
#include "cuda/attention_source.h"

#include <string>

namespace refactor::kernel::cuda {

/// How the 256 threads of a block share the keys of a step. A word is `run` elements: 16 bytes of the widest type, or
/// one element where rows allow no vectors.
struct CacheTile {
    int run = 1;
    int key_words = 0, value_words = 0;  ///< of a row
    int lanes = 1, pieces = 1;           ///< threads that read a row of K together, words of each
    int key_slots = 1, value_slots = 1;  ///< rows that a thread has under way
    int value_fresh = 1;                 ///< of new values

    /// At most 16 words of K and of V a thread: with 4 registers each, half of those that it may have. Some depths fit
    /// into no tile.
    static std::string make(int64_t depth, int64_t value_depth, int64_t run, CacheTile& tile);
    int64_t key_rows() const { return 256 / lanes; }
    int64_t value_rows() const { return 256 / value_words; }
    int64_t step() const { return key_slots * key_rows(); }
};

/// What the code depends on; past, new and present keys and values are of these types.
struct CachedAttentionKind : AttentionKind {
    DataType past = DataType::F32, fresh = DataType::F32, present = DataType::F32;
    CacheTile tile;
    int64_t group = 1;  ///< heads of Q that share one of K

    std::string key() const;
};

/// `rg_attention`: a block has one query and a part of the keys; of blocks that read the same keys, one writes them to
/// the present caches. `rg_attention_join` joins the parts. `AttentionWords` behind the addresses of Q, past K, past V,
/// mask, sinks, Y, partial results, new K, new V, present K, present V.
std::string cached_attention_source(CachedAttentionKind const&);

/// Its body, behind `Words`.
extern char const* const kCachedAttention;

}  // namespace refactor::kernel::cuda
