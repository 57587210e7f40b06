#pragma once
#include <cstdint>

// The boundary between what products of rounded rows prepare (baseline code) and the loops over them.

namespace refactor::kernel {

/// Products of rows of signed bytes with packed columns of unsigned numbers.
///
/// A dword holds 32 / bits consecutive numbers of a column, low bits first. A shift and a mask leave every (8 / bits)th
/// of them, one in each byte: A is reordered alike, so that these meet four bytes that are next to each other.
struct BlockBytes {
    static constexpr int64_t kPanel = 32;  ///< columns: two vectors of AVX-512

    int64_t rows, columns;
    int8_t const* a;
    int64_t a_row;          ///< bytes between rows, whole blocks
    int64_t a_blocks;       ///< elements of the next two between rows
    float const* a_scales;  ///< one for each block of a row
    int32_t const* a_less;  ///< likewise: what is added to a block's products; with `zeros`, times the column's
    int64_t blocks, words;  ///< of a column; dwords of a block
    int32_t bits;
    uint32_t const* q;     ///< panels of [blocks][words][kPanel]
    float const* scales;   ///< panels of [blocks][kPanel]
    uint8_t const* zeros;  ///< likewise; null: in `a_less`
    float const* bias;     ///< null: none
    float* y;
    int64_t y_row;
};

/// A row of floats as bytes in the order of `BlockBytes`, block by block.
struct RoundedRow {
    float const* a;
    int64_t k, block;
    int32_t bits;  ///< of the numbers that it will be multiplied by
    int32_t zero;  ///< what sums are multiplied by for `less`
    int8_t* bytes;
    float* scales;
    int32_t* less;  ///< -sum of bytes * zero
};

struct BlockBytesFunctions {
    int most_bits;
    void (*multiply)(BlockBytes const&);
    /// Rounds to nearest even; the largest magnitude of a block becomes 127. Blocks with an infinity or NaN become NaN.
    void (*round)(RoundedRow const&);
};

BlockBytesFunctions const& block_bytes_avx2();
BlockBytesFunctions const& block_bytes_avx2vnni();
BlockBytesFunctions const& block_bytes_avx512vnni();

}  // namespace refactor::kernel
