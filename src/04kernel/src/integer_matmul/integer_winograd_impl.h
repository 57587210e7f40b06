#pragma once
// Winograd F(4×4, 3×3) in integers, written against `Lanes` and `Words`; include behind `integer_product_impl.h`. The
// method is in `integer_conv/integer_winograd.h`.

namespace refactor::kernel {
namespace {

RG_SIMD Words four_times(Words a) { return a << 2; }
RG_SIMD Lanes four_times(Lanes a) { return a << 2; }

/// Bᵀ along one axis.
RG_SIMD void spread_input(Words const (&x)[6], Words (&v)[6]) {
    Words even = x[4] - x[2], odd = x[3] - x[1], twice = odd + odd;
    v[0] = four_times(x[0] - x[2]) + even;
    v[1] = x[3] + x[4] - four_times(x[1] + x[2]);
    v[2] = x[4] - x[3] + four_times(x[1] - x[2]);
    v[3] = even + twice, v[4] = even - twice;
    v[5] = x[5] - x[3] - (twice + twice);
}

/// 24 Aᵀ along one axis, without the factors that G' has.
RG_SIMD void gather_output(Lanes const (&m)[6], Lanes (&y)[4]) {
    Lanes s = m[1] + m[2], d = m[1] - m[2], p = m[3] + m[4], q = m[3] - m[4];
    y[0] = m[0] + s + p;
    y[1] = d + q + q;
    y[2] = s + four_times(p);
    y[3] = d + four_times(q + q + m[5]);
}

/// A vector of channels of a tile whose corner is at (top, left), from channel `c` on; those behind the last one are
/// multiplied by zero.
RG_SIMD void transform_input(IntegerWinograd const& t, int64_t top, int64_t left, int64_t c, int16_t* v, int64_t step) {
    Words::Part part = Words::first(t.channels - c);
    Words zero = Words::set(t.x_zero), lines[6][6];
    for (int64_t i = 0; i < 6; ++i) {
        Words pixels[6];
        uint8_t const* line = t.x + ((top + i) * t.width + left) * t.channels + c;
#pragma GCC unroll 6
        for (int64_t j = 0; j < 6; ++j) {
            bool inside = top + i >= 0 && top + i < t.height && left + j >= 0 && left + j < t.width;
            pixels[j] = inside ? Words::load_bytes(line + j * t.channels, part, t.x_signed) - zero : Words::zero();
        }
        spread_input(pixels, lines[i]);
    }
#pragma GCC unroll 6
    for (int64_t j = 0; j < 6; ++j) {
        Words column[6] = {lines[0][j], lines[1][j], lines[2][j], lines[3][j], lines[4][j], lines[5][j]}, result[6];
        spread_input(column, result);
#pragma GCC unroll 6
        for (int64_t i = 0; i < 6; ++i) result[i].store(v + (i * 6 + j) * step);
    }
}

/// A step reads a panel's line of U: of the next panel so much is asked for, in every other cache line.
constexpr int kPrefetches = kPanel * 4 > 128 ? 2 : 1;

/// rows × panel sums of products of i16.
template <int rows>
[[gnu::noinline]] void winograd_product(int16_t const* v, int64_t row, int64_t depth, int32_t const* u, Ahead ahead,
                                        int32_t* m) {
    Lanes c[rows][kVectors];
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) c[i][k] = Lanes::zero();
    for (int64_t d = 0; d < depth; ++d, u += kPanel) {
        Lanes w[kVectors];
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) w[k] = Lanes::load(u + k * kWidth);
#pragma GCC unroll 2
        for (int i = 0; i < kPrefetches; ++i) __builtin_prefetch(ahead.from + i * (ahead.step / kPrefetches), 0, 2);
        ahead.from += ahead.step;
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            Lanes x = Lanes::set(load_dword(reinterpret_cast<uint8_t const*>(v + i * row + 2 * d)));
#pragma GCC unroll 4
            for (int k = 0; k < kVectors; ++k) c[i][k] = dot_words(c[i][k], x, w[k]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int k = 0; k < kVectors; ++k) c[i][k].store(m + i * kPanel + k * kWidth);
}

/// The 36 products of a panel.
RG_SIMD void winograd_products(IntegerWinograd const& t, int64_t panel) {
    using Product = void (*)(int16_t const*, int64_t, int64_t, int32_t const*, Ahead, int32_t*);
    constexpr Product kProduct[] = {nullptr,
                                    winograd_product<1>,
                                    winograd_product<2>,
                                    winograd_product<3>,
                                    winograd_product<4>,
                                    winograd_product<5>,
                                    winograd_product<6>};
    int64_t tiles = (t.tiles + 5) / 6, step = (kPanel * 4 + tiles - 1) / tiles;
    for (int64_t p = 0; p < 36; ++p) {
        int32_t const* u = t.u + (panel * 36 + p) * t.depth * kPanel;
        auto const* next = reinterpret_cast<char const*>(u + t.depth * kPanel);
        for (int64_t i = 0; i < t.tiles; i += 6, next += step * t.depth)
            kProduct[t.tiles - i < 6 ? t.tiles - i : 6](t.v + (p * t.tiles + i) * t.row, t.row, t.depth, u,
                                                        {next, step}, t.m + (p * t.tiles + i) * kPanel);
    }
}

/// Sums of 4 × 4 positions and a panel of columns, [position][panel].
RG_SIMD void transform_output(IntegerWinograd const& t, int64_t tile, int64_t column, int32_t* sums) {
    // The inverse of 9 modulo 2^32.
    Lanes const inverse = Lanes::set(954437177);
    for (int64_t k = 0; k < kVectors; ++k) {
        int32_t const* m = t.m + tile * kPanel + k * kWidth;
        Lanes columns[6][4], add = Lanes::load(t.y.column_add + column + k * kWidth);
#pragma GCC unroll 6
        for (int64_t i = 0; i < 6; ++i) {
            Lanes line[6];
#pragma GCC unroll 6
            for (int64_t j = 0; j < 6; ++j) line[j] = Lanes::load(m + (i * 6 + j) * t.tiles * kPanel);
            gather_output(line, columns[i]);
        }
#pragma GCC unroll 4
        for (int64_t x = 0; x < 4; ++x) {
            Lanes line[6] = {columns[0][x], columns[1][x], columns[2][x], columns[3][x], columns[4][x], columns[5][x]};
            Lanes y[4];
            gather_output(line, y);
#pragma GCC unroll 4
            for (int64_t i = 0; i < 4; ++i)
                (((y[i] * inverse) >> 6) + add).store(sums + (i * 4 + x) * kPanel + k * kWidth);
        }
    }
}

void winograd(IntegerWinograd const& t) {
    for (int64_t i = 0; i < t.tiles; ++i) {
        int64_t tile = t.first + i, top = tile / t.tile_columns * 4 - t.pad_top;
        int64_t left = tile % t.tile_columns * 4 - t.pad_left;
        for (int64_t c = 0; c < t.channels; c += Words::width)
            transform_input(t, top, left, c, t.v + i * t.row + c, t.tiles * t.row);
    }
    Finish f = finish_of(t.y.tail);
    f.kind = kind_of(t.y, f);
    alignas(64) int32_t sums[16 * kPanel];
    for (int64_t panel = t.panel_begin; panel < t.panel_end; ++panel) {
        winograd_products(t, panel);
        for (int64_t i = 0; i < t.tiles; ++i) {
            transform_output(t, i, panel * kPanel, sums);
            int64_t tile = t.first + i, x = tile % t.tile_columns * 4;
            int64_t width = t.out_width - x < 4 ? t.out_width - x : 4;
            for (int64_t line = 0, y = tile / t.tile_columns * 4; line < 4 && y < t.out_height; ++line, ++y) {
                int32_t const* from = sums + line * 4 * kPanel;
                int64_t first = y * t.out_width + x;
                if (width < 4 || f.kind == Finish::Kind::Any) {
                    store_sums(t.y, f, from, static_cast<int>(width), kVectors, first, panel * kPanel);
                    continue;
                }
                Lanes c[4][kVectors];
#pragma GCC unroll 16
                for (int j = 0; j < 4 * kVectors; ++j) c[j / kVectors][j % kVectors] = Lanes::load(from + j * kWidth);
                store_tile(t.y, f, c, first, panel * kPanel);
            }
        }
    }
}

}  // namespace
}  // namespace refactor::kernel
