#pragma once
#include <cstdint>

namespace refactor::kernel {

/// `target[column * target_row + row] = source[row * source_row + column]`; steps in elements of 1 or 4 bytes.
/// Words may be at any address. `readable` elements exist from `source` on, which may be more than the matrix has.
void transpose_bytes(uint8_t const* source, int64_t source_row, int64_t rows, int64_t columns, int64_t readable,
                     uint8_t* target, int64_t target_row);
void transpose_words(uint32_t const* source, int64_t source_row, int64_t rows, int64_t columns, uint32_t* target,
                     int64_t target_row);

}  // namespace refactor::kernel
