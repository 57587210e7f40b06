#include "elementwise/table.h"

#include <immintrin.h>

namespace refactor::kernel::elementwise {
namespace {

constexpr int64_t kBytes = 32;

/// Sixteen shuffles look up the low four bits of every byte; the others choose between them, pair by pair.
__m256i look_up(__m256i const (&lines)[16], __m256i x) {
    __m256i low = _mm256_and_si256(x, _mm256_set1_epi8(15)), chosen[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) chosen[i] = _mm256_shuffle_epi8(lines[i], low);
        // A blend looks at the highest bit: those from the fourth on are brought there.
#pragma GCC unroll 4
    for (int bit = 0; bit < 4; ++bit) {
        __m256i choice = _mm256_slli_epi16(x, 3 - bit);
#pragma GCC unroll 8
        for (int i = 0; i < 8 >> bit; ++i) chosen[i] = _mm256_blendv_epi8(chosen[2 * i], chosen[2 * i + 1], choice);
    }
    return chosen[0];
}

}  // namespace

void look_up_bytes_avx2(uint8_t const* table, uint8_t const* x, uint8_t* y, int64_t n) {
    __m256i lines[16];
    for (int i = 0; i < 16; ++i)
        lines[i] = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<__m128i const*>(table) + i));
    int64_t i = 0;
    for (; i + kBytes <= n; i += kBytes)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                            look_up(lines, _mm256_loadu_si256(reinterpret_cast<__m256i const*>(x + i))));
    for (; i < n; ++i) y[i] = table[x[i]];
}

}  // namespace refactor::kernel::elementwise
