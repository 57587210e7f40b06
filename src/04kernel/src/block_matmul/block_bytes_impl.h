#pragma once
// Loops over panels, written against `Vec`, `Ints`, `Numbers` and `Products`; include `vec_*.h` first and define those,
// kVectors × kRows, the register tile, kMostBits, and kRun, the words of a column whose products `Products` can hold.
#include "block_matmul/block_bytes.h"

namespace refactor::kernel {
namespace {

constexpr int W = Vec::width;
constexpr int64_t kPanel = BlockBytes::kPanel;

RG_SIMD int32_t load_dword(int8_t const* p) {
    int32_t value;
    __builtin_memcpy(&value, p, 4);
    return value;
}

/// Products of rows with the `words` words of a column from `q` on, of elements from `a` on.
template <int bits, int rows>
RG_SIMD void multiply_words(int8_t const*& a, int64_t a_row, uint32_t const*& q, int64_t words,
                            Products (&c)[rows][kVectors]) {
    constexpr int kParts = 8 / bits;
    for (int64_t word = 0; word < words; ++word, q += kPanel, a += 4 * kParts) {
        Numbers packed[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) packed[v] = Numbers::load(q + v * W);
#pragma GCC unroll 4
        for (int p = 0; p < kParts; ++p) {
            Numbers w[kVectors];
#pragma GCC unroll 2
            for (int v = 0; v < kVectors; ++v) w[v] = packed[v].part<bits>(p);
#pragma GCC unroll 6
            for (int i = 0; i < rows; ++i) {
                Ints x = Ints::set(load_dword(a + i * a_row + 4 * p));
#pragma GCC unroll 2
                for (int v = 0; v < kVectors; ++v) c[i][v].add(w[v], x);
            }
        }
    }
}

/// rows × (kVectors * W) results from `column` on, of which those are stored that there are.
template <int bits, bool has_zeros, int rows>
[[gnu::noinline]] void tile(BlockBytes const& t, int64_t row, int64_t column) {
    int64_t first = column / kPanel * t.blocks * kPanel + column % kPanel;  // of the first block
    uint32_t const* q = t.q + first / kPanel * kPanel * t.words + column % kPanel;
    int8_t const* a = t.a + row * t.a_row;
    Vec sum[rows][kVectors];
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[i][v] = Vec::zero();
    for (int64_t block = 0; block < t.blocks; ++block) {
        int64_t at = first + block * kPanel;
        Ints zero[kVectors];
        if (has_zeros)
#pragma GCC unroll 2
            for (int v = 0; v < kVectors; ++v) zero[v] = Ints::load_bytes(t.zeros + at + v * W);
        for (int64_t word = 0; word < t.words; word += kRun) {
            Products c[rows][kVectors];
            Ints less[rows][kVectors];
#pragma GCC unroll 6
            for (int i = 0; i < rows; ++i) {
                Ints all = Ints::set(word ? 0 : t.a_less[(row + i) * t.a_blocks + block]);
#pragma GCC unroll 2
                for (int v = 0; v < kVectors; ++v) {
                    less[i][v] = has_zeros ? multiply_low(zero[v], all) : all;
                    c[i][v] = Products::begin(less[i][v]);
                }
            }
            multiply_words<bits>(a, t.a_row, q, t.words - word < kRun ? t.words - word : kRun, c);
            Vec scale[kVectors];
#pragma GCC unroll 2
            for (int v = 0; v < kVectors; ++v) scale[v] = Vec::load(t.scales + at + v * W);
#pragma GCC unroll 6
            for (int i = 0; i < rows; ++i) {
                Vec a_scale = Vec::set(t.a_scales[(row + i) * t.a_blocks + block]);
#pragma GCC unroll 2
                for (int v = 0; v < kVectors; ++v)
                    sum[i][v] = fma(c[i][v].end(less[i][v]), scale[v] * a_scale, sum[i][v]);
            }
        }
    }
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
        int64_t j = column + v * W, left = t.columns - j;
        int n = static_cast<int>(left < 0 ? 0 : left < W ? left : W);
        Vec bias = t.bias ? Vec::load_first(t.bias + j, n) : Vec::zero();
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) (sum[i][v] + bias).store_first(t.y + (row + i) * t.y_row + j, n);
    }
}

using Tile = void (*)(BlockBytes const&, int64_t, int64_t);
template <int bits, bool has_zeros>
struct Tiles {
    Tile of[kRows + 1] = {};
    template <int rows>
    constexpr void fill() {
        of[rows] = tile<bits, has_zeros, rows>;
        if constexpr (rows > 1) fill<rows - 1>();
    }
    constexpr Tiles() { fill<kRows>(); }
};

template <int bits, bool has_zeros>
void multiply_bits(BlockBytes const& t) {
    static constexpr Tiles<bits, has_zeros> kTiles;
    // Tiles of about the same height: low ones unpack weights for few rows.
    int64_t tiles = (t.rows + kRows - 1) / kRows;
    for (int64_t column = 0; column < t.columns; column += kVectors * W)
        for (int64_t i = 0; i < tiles; ++i) {
            int64_t row = t.rows * i / tiles;
            kTiles.of[t.rows * (i + 1) / tiles - row](t, row, column);
        }
}

template <int bits>
void multiply_bits(BlockBytes const& t) {
    t.zeros ? multiply_bits<bits, true>(t) : multiply_bits<bits, false>(t);
}

void multiply(BlockBytes const& t) {
    if (t.bits == 2) return multiply_bits<2>(t);
    if (t.bits == 4) return multiply_bits<4>(t);
    if constexpr (kMostBits == 8) multiply_bits<8>(t);
}

/// A block of a row; `n` elements from `a` on, zeros behind.
RG_SIMD void round_block(RoundedRow const& t, float const* a, int64_t n, int8_t* bytes, float* scale, int32_t* less) {
    // As integers, magnitudes have the order of their values, and NaN is behind infinity.
    Ints most = Ints::set(0), sum = Ints::set(0);
    auto load = [&](int64_t i) __attribute__((always_inline)) {
        return n - i >= W ? Vec::load(a + i) : Vec::load_first(a + i, static_cast<int>(n - i > 0 ? n - i : 0));
    };
    for (int64_t i = 0; i < n; i += W) most = max(most, as_ints(abs(load(i))));
    int32_t code = most.largest();
    float largest;
    __builtin_memcpy(&largest, &code, 4);
    // 127 / largest must be finite; what is smaller is zero beside everything that is not.
    bool tiny = largest < 1e-36f, finite = largest < __builtin_inff();
    Vec inverse = Vec::set(tiny || !finite ? 0.f : 127.f / largest);
    Order order(t.bits);
    for (int64_t i = 0; i < t.block; i += 16) {
        Ints x[16 / W];
#pragma GCC unroll 2
        for (int k = 0; k < 16 / W; ++k) {
            x[k] = rounded(load(i + k * W) * inverse);
            sum = sum + x[k];
        }
        order.store(x, bytes + i);
    }
    *scale = tiny ? 0 : finite ? largest / 127 : __builtin_nanf("");
    *less = static_cast<int32_t>(0u - static_cast<uint32_t>(sum.total()) * static_cast<uint32_t>(t.zero));
}

void round(RoundedRow const& t) {
    for (int64_t first = 0, b = 0; first < t.k; first += t.block, ++b)
        round_block(t, t.a + first, t.k - first < t.block ? t.k - first : t.block, t.bytes + first, t.scales + b,
                    t.less + b);
}

constexpr BlockBytesFunctions kFunctions{kMostBits, multiply, round};

}  // namespace
}  // namespace refactor::kernel
