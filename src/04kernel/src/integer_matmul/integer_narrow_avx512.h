#pragma once
// Products of at most 16 columns, and convolutions of narrow groups, for AVX-512; part of
// `integer_product_avx512vnni.cc`.
//
// A vector of columns takes an element of A for each product, so that loads count: as many rows make a tile as have
// their addresses in registers.
//
// Groups of 4, 8 or 16 channels with as many outputs: 16 outputs next to each other read 16 bytes next to each other.
// A dword of k is, for each of these outputs, one of its own group: for 16 channels all read the same, for fewer the
// 16 bytes are loaded once and their dwords spread to the lanes of their groups. So no lane is without a channel.

namespace refactor::kernel {
namespace {

constexpr int kNarrowRows = 8;

/// The dwords of 16 bytes at `from`, each in all lanes of the outputs of its group.
template <int width>
RG_SIMD void read_groups(uint8_t const* from, Lanes (&x)[width / 4]) {
    constexpr int kDepth = width / 4;
    __m512i all{};
    if (width < kWidth) all = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<__m128i const*>(from)));
#pragma GCC unroll 4
    for (int d = 0; d < kDepth; ++d) {
        auto lane = [d](int j) { return 0x03020100 + 0x04040404 * (j / width * kDepth + d); };
        x[d] =
            width == kWidth
                ? Lanes::set(load_dword(from + 4 * d))
                : Lanes{_mm512_shuffle_epi8(all, _mm512_setr_epi32(lane(0), lane(1), lane(2), lane(3), lane(4), lane(5),
                                                                   lane(6), lane(7), lane(8), lane(9), lane(10),
                                                                   lane(11), lane(12), lane(13), lane(14), lane(15)))};
    }
}

/// Adds the products of a run of A, `at` bytes from each row, whose dwords all columns read.
template <int rows>
RG_SIMD void add_run(uint8_t const* const (&a)[rows], int64_t at, int64_t depth, int32_t const* b,
                     Lanes (&c)[rows][1]) {
    for (int64_t d = 0; d < depth; ++d, at += 4, b += kWidth) {
        asm("" : "+r"(at));  // an index: pointers to every row would not fit into registers
        Lanes w = Lanes::load(b);
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) c[i][0] = dot(c[i][0], Lanes::set(load_dword(a[i] + at)), w);
    }
}

/// The same of a run of groups of `width` channels.
template <int width, int rows>
RG_SIMD void add_group_run(uint8_t const* const (&a)[rows], int64_t at, int32_t const* b, Lanes (&c)[rows][1]) {
    constexpr int kDepth = width / 4;
    asm("" : "+r"(at));
    Lanes w[kDepth];
    for (int d = 0; d < kDepth; ++d) w[d] = Lanes::load(b + d * kWidth);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
        Lanes x[kDepth];
        read_groups<width>(a[i] + at, x);
#pragma GCC unroll 4
        for (int d = 0; d < kDepth; ++d) c[i][0] = dot(c[i][0], x[d], w[d]);
    }
}

/// `width`: channels of a group; 0: all columns read the same.
template <int width, int rows>
[[gnu::noinline]] void narrow_tile(IntegerBlock const& t, Finish const& f, int64_t first, int64_t column) {
    uint8_t const* a[rows];
    Lanes c[rows][1];
    Lanes const add = Lanes::load(t.column_add + column);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
        a[i] = t.a + column + (t.a_offsets ? t.a_offsets[first + i] : (first + i) * t.a_row);
        c[i][0] = add;
    }
    int32_t const* b = t.b + column * t.taps * t.depth;
    for (int64_t tap = 0; tap < t.taps; ++tap, b += kWidth * t.depth)
        if constexpr (width == 0)
            add_run<rows>(a, t.tap_offsets[tap], t.depth, b, c);
        else
            add_group_run<width>(a, t.tap_offsets[tap], b, c);
    if constexpr (rows % together(1) == 0)
        if (f.kind != Finish::Kind::Any) return store_tile(t, f, c, first, column);
    alignas(64) int32_t sums[rows * kWidth];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) c[i][0].store(sums + i * kWidth);
    store_sums(t, f, sums, rows, 1, first, column);
}

template <int width>
void multiply_narrow(IntegerBlock const& t, Finish const& f) {
    for (int64_t column = 0; column < t.columns; column += kWidth) {
        int64_t row = 0;
        for (; row + kNarrowRows <= t.rows; row += kNarrowRows) narrow_tile<width, kNarrowRows>(t, f, row, column);
        if (row + 4 <= t.rows) narrow_tile<width, 4>(t, f, row, column), row += 4;
        if (row + 2 <= t.rows) narrow_tile<width, 2>(t, f, row, column), row += 2;
        if (row < t.rows) narrow_tile<width, 1>(t, f, row, column);
    }
}

void multiply_narrow(IntegerBlock const& t) {
    Finish f = finish_of(t.tail);
    f.kind = kind_of(t, f);
    if (!t.grouped) return multiply_narrow<0>(t, f);
    if (t.depth == 1) return multiply_narrow<4>(t, f);
    if (t.depth == 2) return multiply_narrow<8>(t, f);
    multiply_narrow<16>(t, f);
}

}  // namespace
}  // namespace refactor::kernel
