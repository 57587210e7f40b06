#pragma once
#include <cstdint>

namespace refactor::kernel {

/// Positions of one block of channels between the Plain layout (channels `plain_stride` floats apart) and the blocked
/// one, whose elements are floats or, rounded, bf16 as their bits.
template <class T>
struct BlockTransposeOf {
    float* plain;
    int64_t plain_stride;
    T* blocked;
    int64_t positions;
    int32_t channels;  ///< of the block that exist; the others are written as zeros and never read
};
using BlockTranspose = BlockTransposeOf<float>;

/// One instruction set; where nothing is rounded, elements may be of any type of 4 bytes.
template <class T>
struct ReorderIsaOf {
    int block;
    void (*to_blocked)(BlockTransposeOf<T> const&);
    void (*to_plain)(BlockTransposeOf<T> const&);
    /// The same with the channels of a position side by side, and positions `plain_stride` floats apart.
    void (*last_to_blocked)(BlockTransposeOf<T> const&) = nullptr;
    void (*last_to_plain)(BlockTransposeOf<T> const&) = nullptr;
};
using ReorderIsa = ReorderIsaOf<float>;
using ReorderIsaBf16 = ReorderIsaOf<uint16_t>;
ReorderIsa const& reorder_avx2();
ReorderIsa const& reorder_avx512();
ReorderIsaBf16 const& reorder_avx512bf16();

}  // namespace refactor::kernel
