#pragma once
#include "kernel/kernel.h"

namespace refactor::kernel::elementwise {

/// How one input runs along the output.
enum class Access : uint8_t {
    Unused,
    Linear,     ///< element i of the input for element i of the output
    Uniform,    ///< one element for all
    Row,        ///< a run of elements for each row, at an offset that depends on the row
    RowScalar,  ///< one element for each row
    Pattern,    ///< blocked layouts: the channels of the row's block, repeated
    Position,   ///< blocked layouts: one element for all channels of a position
};

/// The output's elements as rows of equal length, the shape of an elementwise operation after merging axes.
///
/// Example: [8, 512, 768] + [768] has 4096 rows of 768, the first input Linear and the second Row with stride 0; [2,
/// 64, 56, 56] * [64, 1, 1] has 128 rows of 3136 and a RowScalar.
struct LoopNest {
    struct Input {
        Access access = Access::Unused;
        bool partial = false;  ///< Pattern: the last block has only `valid` channels (another layout)
        int32_t bytes = 0;     ///< of an element; 0 if it is not read
        Dims strides;          ///< in elements, along `outer`, or `positions`; not of Linear and Uniform
    };
    Dims outer;      ///< sizes of the axes around the rows, outermost first; blocked layouts: N, blocks, spatial ones
    Dims positions;  ///< blocked layouts: N, blocks, all spatial axes
    int64_t rows = 1, row = 1;
    std::vector<Input> inputs;
    bool linear = true;  ///< no input has strides: rows need not be told apart
    int32_t block = 1;   ///< channels in a block
    int32_t valid = 0;   ///< blocked layouts whose last block is not full: its channels, else 0

    int64_t count() const { return rows * row; }

    /// `input_bytes[i]`: size of an element of input i, 0 if it is not read.
    static Result<LoopNest, Rejection> make(BindArgs const& args, std::span<int64_t const> input_bytes);
};

}  // namespace refactor::kernel::elementwise
