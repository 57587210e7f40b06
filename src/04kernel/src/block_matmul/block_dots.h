#pragma once
#include <cstdint>

// The boundary between the choice of parts (baseline code) and the loops over them (one file for each instruction set).

namespace refactor::kernel {

/// Dot products of rows of A with packed columns.
///
/// A vector of 32-bit words holds a chunk of `width * 32 / bits` numbers; those at the same bits of their words come
/// out by a shift and a mask. A is reordered alike: of every chunk, the elements of the lowest bits come first, then
/// those of the next bits, and so on, zeros behind the last element, then their sums for each word, which the zero
/// points take. A word lies in one block, so that scales are applied once for a chunk.
struct BlockDots {
    int64_t rows, columns;
    float const* a;
    int64_t a_row;  ///< floats between rows
    int64_t words;  ///< of a column that A has elements for
    int32_t bits;
    int32_t block_words;  ///< words of a block, as a power of two
    uint8_t const* q;     ///< columns of `blocks` blocks
    int64_t q_column;     ///< bytes between columns
    int64_t blocks;
    float const* scales;  ///< [columns][blocks]
    float const* zeros;   ///< likewise; null: `zero` for all
    float zero;
    float const* bias;  ///< null: none
    float* y;
    int64_t y_row;
};

struct BlockDotsFunctions {
    int width;  ///< floats in a vector
    void (*multiply)(BlockDots const&);
    /// Brings `k` elements into the order of chunks; `target` has whole chunks of `32 / bits + 1` vectors.
    void (*reorder)(float const* a, int64_t k, int32_t bits, float* target);
    /// Blocks `first` to `first + blocks` of all columns as f32: a panel [elements][columns in whole vectors].
    void (*widen)(BlockDots const&, int64_t first, int64_t blocks, float* target);
};

BlockDotsFunctions const& block_dots_avx2();
BlockDotsFunctions const& block_dots_avx512();

}  // namespace refactor::kernel
