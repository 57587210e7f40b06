#pragma once
#include "pass.h"

namespace refactor::computation {

/// What one node can do with blocked operands.
struct LayoutAbility {
    bool blocked = false;              ///< may be labelled blocked at all
    bool convolution = false;          ///< reorders inside if it is not
    bool parts_of_blocks = false;      ///< copies where row-major parts would be runs of bytes
    bool plain_output = false;         ///< writes row-major whatever it reads
    bool needs_blocks = false;         ///< reorders, or is slow, if what it reads is row-major
    SmallVector<uint8_t, 16> follows;  ///< by input: 1 if it has the node's layout, 0 if it stays row-major
};
/// `block`: channels of a block.
LayoutAbility layout_ability(NodePtr, int64_t block);

/// A convolution of which every output reads one position, as those of row-major matrices.
bool is_pointwise(NodePtr);

}  // namespace refactor::computation
