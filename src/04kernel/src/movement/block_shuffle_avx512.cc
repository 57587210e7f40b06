#include "movement/shuffle_table.h"

#include <immintrin.h>

namespace refactor::kernel::movement {
namespace {

constexpr int kVector = ShuffleTable::kVector;

__mmask32 first_words(int bytes) { return bytes >= kVector ? ~0u : (1u << bytes / 2) - 1; }

template <int vectors>
void shuffle(ShuffleTable const& table, std::byte const* src, int64_t src_step, std::byte* dst, int64_t dst_step,
             int64_t count) {
    __m512i words[vectors];
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) words[i] = _mm512_load_si512(table.words[i]);
    __mmask32 const in = first_words(table.in), out = first_words(table.out);
    int64_t const last = vectors == 1 ? 0 : table.out - kVector;
    for (; count > 0; --count, src += src_step, dst += dst_step) {
        __m512i x = _mm512_maskz_loadu_epi16(in, src);
#pragma GCC unroll 8
        for (int i = 0; i + 1 < vectors; ++i)
            _mm512_storeu_si512(dst + i * kVector, _mm512_permutexvar_epi16(words[i], x));
        __m512i y = _mm512_permutexvar_epi16(words[vectors - 1], x);
        if (vectors == 1)
            _mm512_mask_storeu_epi16(dst, out, y);
        else
            _mm512_storeu_si512(dst + last, y);
    }
}

}  // namespace

// Declared in block_shuffle.h, which an ISA file must not include: it brings shared inline functions.
void shuffle_blocks_avx512(ShuffleTable const& table, std::byte const* src, int64_t src_step, std::byte* dst,
                           int64_t dst_step, int64_t count);

void shuffle_blocks_avx512(ShuffleTable const& table, std::byte const* src, int64_t src_step, std::byte* dst,
                           int64_t dst_step, int64_t count) {
    static constexpr ShuffleFunction kOf[] = {shuffle<1>, shuffle<2>, shuffle<3>, shuffle<4>,
                                              shuffle<5>, shuffle<6>, shuffle<7>, shuffle<8>};
    kOf[(table.out - 1) / kVector](table, src, src_step, dst, dst_step, count);
}

}  // namespace refactor::kernel::movement
