#include "elementwise/table.h"

#include <immintrin.h>

namespace refactor::kernel::elementwise {

[[gnu::target("avx512vbmi")]] void look_up_bytes_avx512(uint8_t const* table, uint8_t const* x, uint8_t* y, int64_t n) {
    __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64);
    __m512i c = _mm512_loadu_si512(table + 128), d = _mm512_loadu_si512(table + 192);
    for (int64_t i = 0; i < n; i += 64) {
        __mmask64 some = n - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n - i)) - 1;
        __m512i index = _mm512_maskz_loadu_epi8(some, x + i);
        __m512i low = _mm512_permutex2var_epi8(a, index, b), high = _mm512_permutex2var_epi8(c, index, d);
        _mm512_mask_storeu_epi8(y + i, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
    }
}

}  // namespace refactor::kernel::elementwise
