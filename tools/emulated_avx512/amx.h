#pragma once
// AMX (TILE, INT8, BF16) without it. The names are those of <immintrin.h> in `namespace refactor`, where they are found
// before the global ones. What a processor answers with an exception (a configuration that does not exist, tiles that
// do not fit each other or are not configured) traps; tiles belong to a thread.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <immintrin.h>

// They are macros.
#undef _tile_dpbf16ps
#undef _tile_dpbssd
#undef _tile_dpbusd
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero

namespace refactor {
namespace {

struct EmulatedTiles {
    bool configured = false;
    uint8_t rows[8] = {};
    uint16_t row_bytes[8] = {};
    uint8_t data[8][16][64] = {};

    static EmulatedTiles& here() {
        static thread_local EmulatedTiles tiles;
        return tiles;
    }
    /// Rows of tile `n`, which has to exist.
    uint8_t (&tile(int n))[16][64] {
        if (!configured || n < 0 || n > 7 || !rows[n]) __builtin_trap();
        return data[n];
    }
};

/// Palette 1; tiles become zero.
inline void _tile_loadconfig(void const* config) {
    auto const* bytes = static_cast<uint8_t const*>(config);
    EmulatedTiles tiles;
    tiles.configured = true;
    if (bytes[0] != 1 || bytes[1] != 0) __builtin_trap();
    for (int i = 2; i < 16; ++i)
        if (bytes[i]) __builtin_trap();
    for (int n = 0; n < 16; ++n) {
        uint16_t row_bytes;
        std::memcpy(&row_bytes, bytes + 16 + 2 * n, 2);
        uint8_t rows = bytes[48 + n];
        if (rows > 16 || row_bytes > 64 || !rows != !row_bytes || (n > 7 && rows)) __builtin_trap();
        if (n < 8) tiles.rows[n] = rows, tiles.row_bytes[n] = row_bytes;
    }
    EmulatedTiles::here() = tiles;
}
inline void _tile_release() { EmulatedTiles::here() = {}; }
inline void _tile_zero(int n) { std::memset(EmulatedTiles::here().tile(n), 0, 1024); }

/// What lies behind the rows and columns of the tile becomes zero.
inline void _tile_loadd(int n, void const* base, int64_t stride) {
    auto& tiles = EmulatedTiles::here();
    auto& tile = tiles.tile(n);
    std::memset(tile, 0, sizeof tile);
    for (int i = 0; i < tiles.rows[n]; ++i)
        std::memcpy(tile[i], static_cast<uint8_t const*>(base) + i * stride, tiles.row_bytes[n]);
}
inline void _tile_stored(int n, void* base, int64_t stride) {
    auto& tiles = EmulatedTiles::here();
    auto& tile = tiles.tile(n);
    for (int i = 0; i < tiles.rows[n]; ++i)
        std::memcpy(static_cast<uint8_t*>(base) + i * stride, tile[i], tiles.row_bytes[n]);
}

/// Two of the three tiles are the same, or do not fit each other.
inline bool misfit(EmulatedTiles const& t, int c, int a, int b) {
    return c == a || c == b || a == b || t.rows[c] != t.rows[a] || t.row_bytes[a] != 4 * t.rows[b] ||
           t.row_bytes[c] != t.row_bytes[b] || t.row_bytes[c] % 4;
}

/// c + a · b: rows of `a` are dwords of bytes, `b` has a row of dwords of signed ones for each.
template <class Byte>
void add_products_of_bytes(int c, int a, int b) {
    auto& t = EmulatedTiles::here();
    auto &sums = t.tile(c), &x = t.tile(a), &y = t.tile(b);
    if (misfit(t, c, a, b)) __builtin_trap();
    for (int i = 0; i < t.rows[c]; ++i)
        for (int j = 0; j < t.row_bytes[c] / 4; ++j) {
            uint32_t sum;
            std::memcpy(&sum, &sums[i][4 * j], 4);
            for (int k = 0; k < t.row_bytes[a]; ++k)
                sum += static_cast<uint32_t>(static_cast<Byte>(x[i][k]) * static_cast<int8_t>(y[k / 4][4 * j + k % 4]));
            std::memcpy(&sums[i][4 * j], &sum, 4);
        }
}
inline void _tile_dpbusd(int c, int a, int b) { add_products_of_bytes<uint8_t>(c, a, b); }
inline void _tile_dpbssd(int c, int a, int b) { add_products_of_bytes<int8_t>(c, a, b); }

/// c + a · b: of pairs of bf16, the even and the odd numbers of all pairs are summed for themselves in f32, and then
/// with c ("Intel 64 and IA-32 Architectures Software Developer's Manual", TDPBF16PS). Denormals are zero.
inline void _tile_dpbf16ps(int c, int a, int b) {
    auto& t = EmulatedTiles::here();
    auto &sums = t.tile(c), &x = t.tile(a), &y = t.tile(b);
    if (misfit(t, c, a, b)) __builtin_trap();
    auto flushed = [](float v) { return std::fpclassify(v) == FP_SUBNORMAL ? std::copysign(0.f, v) : v; };
    auto number = [&](uint8_t const* half) {
        uint16_t bits;
        std::memcpy(&bits, half, 2);
        uint32_t wide = uint32_t{bits} << 16;
        float v;
        std::memcpy(&v, &wide, 4);
        return flushed(v);
    };
    for (int i = 0; i < t.rows[c]; ++i)
        for (int j = 0; j < t.row_bytes[c] / 4; ++j) {
            float even = 0, odd = 0, sum;
            for (int k = 0; k < t.row_bytes[a]; k += 4) {
                even = flushed(std::fma(number(&x[i][k]), number(&y[k / 4][4 * j]), even));
                odd = flushed(std::fma(number(&x[i][k + 2]), number(&y[k / 4][4 * j + 2]), odd));
            }
            std::memcpy(&sum, &sums[i][4 * j], 4);
            sum = flushed(flushed(sum) + flushed(even + odd));
            std::memcpy(&sums[i][4 * j], &sum, 4);
        }
}

}  // namespace
}  // namespace refactor
