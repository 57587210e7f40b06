#include "movement/shuffle_table.h"

#include <immintrin.h>

namespace refactor::kernel::movement {
namespace {

template <int pieces>
void shuffle(ShuffleTable const& table, std::byte const* src, int64_t src_step, std::byte* dst, int64_t dst_step,
             int64_t count) {
    auto load = [](void const* p) __attribute__((always_inline)) {
        return _mm_loadu_si128(static_cast<__m128i const*>(p));
    };
    for (; count > 0; --count, src += src_step, dst += dst_step)
        for (int unit = 0; unit < table.units; ++unit) {
            auto const& order = table.order[unit];
            __m128i y = _mm_shuffle_epi8(load(src + table.from[unit][0]), load(order[0]));
#pragma GCC unroll 4
            for (int i = 1; i < pieces; ++i)
                y = _mm_or_si128(y, _mm_shuffle_epi8(load(src + table.from[unit][i]), load(order[i])));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + table.to[unit]), y);
        }
}

void shuffle_halves(ShuffleTable const& table, std::byte const* src, int64_t src_step, std::byte* dst, int64_t dst_step,
                    int64_t count) {
    for (; count > 0; --count, src += src_step, dst += dst_step)
        for (int unit = 0; unit < table.units; ++unit) {
            auto half = [&](int i) __attribute__((always_inline)) {
                return reinterpret_cast<double const*>(src + table.halves[unit][i]);
            };
            __m128d y = _mm_loadh_pd(_mm_load_sd(half(0)), half(1));
            _mm_storeu_pd(reinterpret_cast<double*>(dst + table.to[unit]), y);
        }
}

}  // namespace

// Declared in block_shuffle.h, which an ISA file must not include: it brings shared inline functions.
void shuffle_blocks_avx2(ShuffleTable const& table, std::byte const* src, int64_t src_step, std::byte* dst,
                         int64_t dst_step, int64_t count);

void shuffle_blocks_avx2(ShuffleTable const& table, std::byte const* src, int64_t src_step, std::byte* dst,
                         int64_t dst_step, int64_t count) {
    auto of = table.by_halves     ? shuffle_halves
              : table.pieces == 1 ? shuffle<1>
              : table.pieces == 2 ? shuffle<2>
              : table.pieces == 3 ? shuffle<3>
                                  : shuffle<4>;
    of(table, src, src_step, dst, dst_step, count);
}

}  // namespace refactor::kernel::movement
