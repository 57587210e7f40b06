#pragma once
#include <cstdint>

namespace refactor::kernel::elementwise {

/// `y[i] = table[x[i]]` for `n` bytes; x may be y.
using TableLookup = void (*)(uint8_t const* table, uint8_t const* x, uint8_t* y, int64_t n);

void look_up_bytes_avx2(uint8_t const* table, uint8_t const* x, uint8_t* y, int64_t n);
/// Needs AVX-512 VBMI.
void look_up_bytes_avx512(uint8_t const* table, uint8_t const* x, uint8_t* y, int64_t n);

}  // namespace refactor::kernel::elementwise
