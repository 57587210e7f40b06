#pragma once
#include "elementwise/loop_nest.h"
#include "elementwise/tile.h"
#include "movement/block_shuffle.h"

namespace refactor::kernel::elementwise {

/// Writes an operand that repeats elements or rows into the buffer of a tile that holds several short rows, or several
/// positions of a blocked layout.
///
/// Example: to [4096, 32, 32], [4096, 32, 1] has 131072 rows of one element each and [4096, 1, 32] 32 times the same
/// row for each of 4096.
class Spread {
public:
    /// Of a Row or RowScalar; of a Position, whose rows are the channels of one block.
    Spread(LoopNest const& nest, LoopNest::Input const& input, Isa isa);
    /// Number of rows after which the operand starts again; it divides the rows of the nest.
    int64_t period() const;
    /// Rows [row, row + rows), rows > 0. `to` has room for 63 bytes behind them.
    void run(std::byte const* from, std::byte* to, int64_t row, int64_t rows) const;

private:
    Dims sizes_, strides_;  ///< of the axes of rows, merged where the operand allows; strides in bytes
    int64_t row_bytes_;     ///< in the tile
    SpreadFunction function_;
    int64_t together_ = 1;  ///< rows that `shuffle_` makes at once
    movement::BlockShuffle shuffle_;

    void run_along(std::byte const* from, std::byte* to, int64_t stride, int64_t rows) const;
};

}  // namespace refactor::kernel::elementwise
