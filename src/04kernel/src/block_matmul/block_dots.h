#pragma once
#include <cstdint>

// The boundary between the choice of parts (baseline code) and the loops over them (one file for each instruction set).

namespace refactor::kernel {

/// Dot products of rows of A with packed columns.
///
/// A is reordered: of every chunk of `width * 8 / bits` elements, those that lie in the lowest bits of their bytes come
/// first, then those of the next bits, and so on, zeros behind the last element. So numbers come out of a vector of
/// bytes by a shift and a mask.
struct BlockDots {
    int64_t rows, columns;
    float const* a;
    int64_t a_row;   ///< floats between rows
    int64_t chunks;  ///< of a row
    int32_t bits;
    int64_t chunks_per_block;
    uint8_t const* q;  ///< columns of `blocks` blocks
    int64_t q_column;  ///< bytes between columns
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
    /// Brings `k` elements into the order of chunks; `target` has whole chunks.
    void (*reorder)(float const* a, int64_t k, int32_t bits, float* target);
};

BlockDotsFunctions const& block_dots_avx2();
BlockDotsFunctions const& block_dots_avx512();

}  // namespace refactor::kernel
