#include "movement/transpose_small.h"

#include <algorithm>
#include <cstring>

#if RG_X86
#include <emmintrin.h>
#endif

namespace refactor::kernel {

namespace {

template <class T>
void transpose_part(T const* source, int64_t source_row, int64_t rows, int64_t columns, T* target, int64_t target_row) {
    for (int64_t c = 0; c < columns; ++c)
        for (int64_t r = 0; r < rows; ++r)
            std::memcpy(target + c * target_row + r, source + r * source_row + c, sizeof(T));
}

#if RG_X86
/// 16 × 16 bytes: four rounds of interleaving rows that are 8 apart. Only `columns` of them are stored.
void transpose_registers(__m128i (&a)[16], uint8_t* target, int64_t target_row, int64_t columns) {
    __m128i b[16];
#pragma GCC unroll 4
    for (int round = 0; round < 4; ++round) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i)
            b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]), b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
#pragma GCC unroll 16
        for (int i = 0; i < 16; ++i) a[i] = b[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i)
        if (i < columns) _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i * target_row), a[i]);
}
void transpose_block(uint8_t const* source, int64_t source_row, uint8_t* target, int64_t target_row) {
    __m128i a[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) a[i] = _mm_loadu_si128(reinterpret_cast<__m128i const*>(source + i * source_row));
    transpose_registers(a, target, target_row, 16);
}
/// Less than 16 columns; `readable` bytes exist from `source` on.
void transpose_narrow(uint8_t const* source, int64_t source_row, int64_t columns, int64_t readable, uint8_t* target,
                      int64_t target_row) {
    __m128i a[16];
    for (int i = 0; i < 16; ++i) {
        auto const* row = source + i * source_row;
        if (i * source_row + 16 <= readable) {
            a[i] = _mm_loadu_si128(reinterpret_cast<__m128i const*>(row));
        } else {
            alignas(16) uint8_t part[16] = {};
            std::memcpy(part, row, static_cast<size_t>(columns));
            a[i] = _mm_load_si128(reinterpret_cast<__m128i const*>(part));
        }
    }
    transpose_registers(a, target, target_row, columns);
}
constexpr int64_t block_side(uint8_t) { return 16; }

/// Pixels of three bytes, from dwords whose last byte is zero; the two bytes behind 12 are written too.
void store_triples(__m128i quads, uint8_t* target) {
    auto join = [](uint64_t two) { return (two & 0xffffff) | (two >> 8 & 0xffffff000000); };
    uint64_t low = join(static_cast<uint64_t>(_mm_cvtsi128_si64(quads)));
    uint64_t high = join(static_cast<uint64_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(quads, quads))));
    std::memcpy(target, &low, 8), std::memcpy(target + 6, &high, 8);
}
/// 16 columns of 2 to 4 rows behind each other; two bytes more are written if there are three.
void interleave_block(uint8_t const* source, int64_t source_row, int64_t rows, uint8_t* target) {
    auto row = [&](int64_t r) {
        return r < rows ? _mm_loadu_si128(reinterpret_cast<__m128i const*>(source + r * source_row))
                        : _mm_setzero_si128();
    };
    auto* out = reinterpret_cast<__m128i*>(target);
    __m128i first = row(0), second = row(1), third = row(2), fourth = row(3);
    __m128i pairs[]{_mm_unpacklo_epi8(first, second), _mm_unpackhi_epi8(first, second)};
    __m128i others[]{_mm_unpacklo_epi8(third, fourth), _mm_unpackhi_epi8(third, fourth)};
    for (int i = 0; i < 2; ++i) {
        __m128i low = _mm_unpacklo_epi16(pairs[i], others[i]), high = _mm_unpackhi_epi16(pairs[i], others[i]);
        if (rows == 2)
            _mm_storeu_si128(out + i, pairs[i]);
        else if (rows == 3)
            store_triples(low, target + 24 * i), store_triples(high, target + 24 * i + 12);
        else
            _mm_storeu_si128(out + 2 * i, low), _mm_storeu_si128(out + 2 * i + 1, high);
    }
}
/// Returns how many columns were written.
int64_t interleave_rows(uint8_t const* source, int64_t source_row, int64_t rows, int64_t columns, uint8_t* target) {
    int64_t c = 0;
    for (; c + 16 < columns; c += 16) interleave_block(source + c, source_row, rows, target + c * rows);
    if (c + 16 != columns) return c;
    // Behind the last column there may be nothing.
    uint8_t last[64 + 2];
    interleave_block(source + c, source_row, rows, last);
    std::memcpy(target + c * rows, last, static_cast<size_t>(16 * rows));
    return columns;
}

/// 4 × 4 words.
void transpose_block(uint32_t const* source, int64_t source_row, uint32_t* target, int64_t target_row) {
    __m128i a[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) a[i] = _mm_loadu_si128(reinterpret_cast<__m128i const*>(source + i * source_row));
    __m128i low = _mm_unpacklo_epi32(a[0], a[1]), low2 = _mm_unpacklo_epi32(a[2], a[3]);
    __m128i high = _mm_unpackhi_epi32(a[0], a[1]), high2 = _mm_unpackhi_epi32(a[2], a[3]);
    auto store = [&](int64_t i, __m128i v) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i * target_row), v);
    };
    store(0, _mm_unpacklo_epi64(low, low2)), store(1, _mm_unpackhi_epi64(low, low2));
    store(2, _mm_unpacklo_epi64(high, high2)), store(3, _mm_unpackhi_epi64(high, high2));
}
constexpr int64_t block_side(uint32_t) { return 4; }

/// Two rows behind each other, word by word. Returns how many columns were written.
int64_t interleave_pairs(uint32_t const* first, uint32_t const* second, int64_t columns, uint32_t* target) {
    auto load = [](uint32_t const* p) { return _mm_loadu_si128(reinterpret_cast<__m128i const*>(p)); };
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
        auto* out = reinterpret_cast<__m128i*>(target + 2 * c);
        __m128i a = load(first + c), b = load(second + c);
        _mm_storeu_si128(out, _mm_unpacklo_epi32(a, b)), _mm_storeu_si128(out + 1, _mm_unpackhi_epi32(a, b));
    }
    return c;
}

__m128 load_words(uint32_t const* p) { return _mm_castsi128_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p))); }
void store_words(uint32_t* p, __m128 v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_castps_si128(v)); }

/// Three rows behind each other, word by word. Returns how many columns were written.
int64_t interleave_triples(uint32_t const* source, int64_t source_row, int64_t columns, uint32_t* target) {
    int64_t i = 0;
    for (; i + 4 <= columns; i += 4, target += 12) {
        __m128 a = load_words(source + i), b = load_words(source + source_row + i);
        __m128 c = load_words(source + 2 * source_row + i);
        __m128 c0a1 = _mm_shuffle_ps(c, a, _MM_SHUFFLE(1, 1, 0, 0)), b1c1 = _mm_shuffle_ps(b, c, 0x55);
        __m128 a2b2 = _mm_shuffle_ps(a, b, 0xaa), c2a3 = _mm_shuffle_ps(c, a, _MM_SHUFFLE(3, 3, 2, 2));
        store_words(target, _mm_shuffle_ps(_mm_unpacklo_ps(a, b), c0a1, _MM_SHUFFLE(2, 0, 1, 0)));
        store_words(target + 4, _mm_shuffle_ps(b1c1, a2b2, _MM_SHUFFLE(2, 0, 2, 0)));
        store_words(target + 8, _mm_shuffle_ps(c2a3, _mm_unpackhi_ps(b, c), _MM_SHUFFLE(3, 2, 2, 0)));
    }
    return i;
}
/// Rows of three words behind each other to three rows. Returns how many of them were read.
int64_t split_triples(uint32_t const* source, int64_t rows, uint32_t* target, int64_t target_row) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4, source += 12) {
        __m128 x = load_words(source), y = load_words(source + 4), z = load_words(source + 8);
        __m128 a2a3 = _mm_shuffle_ps(y, z, _MM_SHUFFLE(1, 1, 2, 2)), b0b1 = _mm_shuffle_ps(x, y, 0x05);
        __m128 b2b3 = _mm_shuffle_ps(y, z, _MM_SHUFFLE(2, 2, 3, 3)), c0c1 = _mm_shuffle_ps(x, y, 0x5a);
        store_words(target + i, _mm_shuffle_ps(x, a2a3, _MM_SHUFFLE(2, 0, 3, 0)));
        store_words(target + target_row + i, _mm_shuffle_ps(b0b1, b2b3, _MM_SHUFFLE(2, 0, 2, 0)));
        store_words(target + 2 * target_row + i, _mm_shuffle_ps(c0c1, z, _MM_SHUFFLE(3, 0, 2, 0)));
    }
    return i;
}
#endif

template <class T>
void transpose(T const* source, int64_t source_row, int64_t rows, int64_t columns, T* target, int64_t target_row) {
    int64_t whole_rows = 0, whole_columns = 0;
#if RG_X86
    constexpr int64_t kSide = block_side(T{}), kLine = 64 / sizeof(T);
    whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
    // L1 may not keep lines that are far apart: those of many source rows, unless the target's are as far.
    auto together = target_row <= 4 * kLine ? kLine : kSide;
    for (int64_t first = 0; first < whole_columns; first += together)
        for (int64_t r = 0; r < whole_rows; r += kSide)
            for (auto c = first; c < std::min(first + together, whole_columns); c += kSide)
                transpose_block(source + r * source_row + c, source_row, target + c * target_row + r, target_row);
#endif
    transpose_part(source + whole_columns, source_row, whole_rows, columns - whole_columns,
                   target + whole_columns * target_row, target_row);
    transpose_part(source + whole_rows * source_row, source_row, rows - whole_rows, columns, target + whole_rows,
                   target_row);
}

}  // namespace

void transpose_bytes(uint8_t const* source, int64_t source_row, int64_t rows, int64_t columns,
                     [[maybe_unused]] int64_t readable, uint8_t* target, int64_t target_row) {
#if RG_X86
    if (rows > 1 && rows <= 4 && target_row == rows) {
        auto done = interleave_rows(source, source_row, rows, columns, target);
        source += done, columns -= done, target += done * rows;
    }
    auto whole = columns / 16 * 16;
    if (whole != columns)
        for (int64_t r = 0; r + 16 <= rows; r += 16)
            transpose_narrow(source + r * source_row + whole, source_row, columns - whole,
                             readable - r * source_row - whole, target + whole * target_row + r, target_row);
    transpose_part(source + rows / 16 * 16 * source_row + whole, source_row, rows % 16, columns - whole,
                   target + whole * target_row + rows / 16 * 16, target_row);
    columns = whole;
#endif
    transpose(source, source_row, rows, columns, target, target_row);
}
void transpose_words(uint32_t const* source, int64_t source_row, int64_t rows, int64_t columns, uint32_t* target,
                     int64_t target_row) {
#if RG_X86
    if (rows == 2 && target_row == 2) {
        auto done = interleave_pairs(source, source + source_row, columns, target);
        source += done, columns -= done, target += 2 * done;
    } else if (rows == 3 && target_row == 3) {
        auto done = interleave_triples(source, source_row, columns, target);
        source += done, columns -= done, target += 3 * done;
    } else if (columns == 3 && source_row == 3) {
        auto done = split_triples(source, rows, target, target_row);
        source += 3 * done, rows -= done, target += done;
    }
#endif
    transpose(source, source_row, rows, columns, target, target_row);
}

}  // namespace refactor::kernel
