#pragma once
#include <cstdint>

namespace refactor::kernel {

/// Positions of one block of channels between the Plain layout (channels `plain_stride` floats apart) and the blocked
/// one.
struct BlockTranspose {
    float* plain;
    int64_t plain_stride;
    float* blocked;
    int64_t positions;
    int32_t channels;  ///< of the block that exist; the others are written as zeros and never read
};

/// One instruction set; elements may be of any type of 4 bytes.
struct ReorderIsa {
    int block;
    void (*to_blocked)(BlockTranspose const&);
    void (*to_plain)(BlockTranspose const&);
};
ReorderIsa const& reorder_avx2();
ReorderIsa const& reorder_avx512();

}  // namespace refactor::kernel
