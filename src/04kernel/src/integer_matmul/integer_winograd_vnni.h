#pragma once
// Winograd F(4×4, 3×3) in integers; include behind `integer_product_impl.h`, for AVX-512 VNNI only. The method is in
// `integer_conv/integer_winograd.h`.

namespace refactor::kernel {
namespace {

/// Bᵀ along one axis.
RG_SIMD void spread_input(__m512i const (&x)[6], __m512i (&v)[6]) {
    auto add = [](__m512i a, __m512i b) { return _mm512_add_epi16(a, b); };
    auto sub = [](__m512i a, __m512i b) { return _mm512_sub_epi16(a, b); };
    __m512i even = sub(x[4], x[2]), odd = sub(x[3], x[1]), twice = add(odd, odd);
    v[0] = add(_mm512_slli_epi16(sub(x[0], x[2]), 2), even);
    v[1] = sub(add(x[3], x[4]), _mm512_slli_epi16(add(x[1], x[2]), 2));
    v[2] = add(sub(x[4], x[3]), _mm512_slli_epi16(sub(x[1], x[2]), 2));
    v[3] = add(even, twice), v[4] = sub(even, twice);
    v[5] = sub(sub(x[5], x[3]), add(twice, twice));
}

/// 24 Aᵀ along one axis, without the factors that G' has.
RG_SIMD void gather_output(__m512i const (&m)[6], __m512i (&y)[4]) {
    auto add = [](__m512i a, __m512i b) { return _mm512_add_epi32(a, b); };
    auto sub = [](__m512i a, __m512i b) { return _mm512_sub_epi32(a, b); };
    __m512i s = add(m[1], m[2]), d = sub(m[1], m[2]), p = add(m[3], m[4]), q = sub(m[3], m[4]);
    y[0] = add(add(m[0], s), p);
    y[1] = add(d, add(q, q));
    y[2] = add(s, _mm512_slli_epi32(p, 2));
    y[3] = add(d, _mm512_slli_epi32(add(add(q, q), m[5]), 2));
}

RG_SIMD __m512i load_pixel(uint8_t const* p, __mmask32 mask, bool is_signed) {
    __m256i bytes = _mm256_maskz_loadu_epi8(mask, p);
    return is_signed ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes);
}

/// 32 channels of a tile whose corner is at (top, left), from channel `c` on.
RG_SIMD void transform_input(IntegerWinograd const& t, int64_t top, int64_t left, int64_t c, int16_t* v, int64_t step) {
    int64_t remain = t.channels - c;
    __mmask32 mask = remain >= 32 ? ~__mmask32{0} : (__mmask32{1} << remain) - 1;
    __m512i zero = _mm512_set1_epi16(static_cast<int16_t>(t.x_zero)), lines[6][6];
    for (int64_t i = 0; i < 6; ++i) {
        __m512i pixels[6];
        uint8_t const* line = t.x + ((top + i) * t.width + left) * t.channels + c;
#pragma GCC unroll 6
        for (int64_t j = 0; j < 6; ++j) {
            bool inside = top + i >= 0 && top + i < t.height && left + j >= 0 && left + j < t.width;
            pixels[j] = inside ? _mm512_sub_epi16(load_pixel(line + j * t.channels, mask, t.x_signed), zero)
                               : _mm512_setzero_si512();
        }
        spread_input(pixels, lines[i]);
    }
#pragma GCC unroll 6
    for (int64_t j = 0; j < 6; ++j) {
        __m512i column[6] = {lines[0][j], lines[1][j], lines[2][j], lines[3][j], lines[4][j], lines[5][j]}, result[6];
        spread_input(column, result);
#pragma GCC unroll 6
        for (int64_t i = 0; i < 6; ++i) {
            // Channels behind the last one are multiplied by zero.
            _mm512_storeu_si512(v + (i * 6 + j) * step, result[i]);
        }
    }
}

/// rows × 64 sums of products of i16.
template <int rows>
[[gnu::noinline]] void winograd_product(int16_t const* v, int64_t row, int64_t depth, int32_t const* u, Ahead ahead,
                                        int32_t* m) {
    __m512i c[rows][4];
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) c[i][k] = _mm512_setzero_si512();
    for (int64_t d = 0; d < depth; ++d, u += 64) {
        __m512i w[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) w[k] = _mm512_loadu_si512(u + k * 16);
        // Steps of up to two cache lines, as of two tiles of rows.
        __builtin_prefetch(ahead.from, 0, 2);
        __builtin_prefetch(ahead.from + ahead.step / 2, 0, 2);
        ahead.from += ahead.step;
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            __m512i x = _mm512_set1_epi32(load_dword(reinterpret_cast<uint8_t const*>(v + i * row + 2 * d)));
#pragma GCC unroll 4
            for (int k = 0; k < 4; ++k) c[i][k] = _mm512_dpwssd_epi32(c[i][k], x, w[k]);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) _mm512_storeu_si512(m + i * 64 + k * 16, c[i][k]);
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
    int64_t step = 256 / ((t.tiles + 5) / 6);
    for (int64_t p = 0; p < 36; ++p) {
        int32_t const* u = t.u + (panel * 36 + p) * t.depth * 64;
        auto const* next = reinterpret_cast<char const*>(u + t.depth * 64);
        for (int64_t i = 0; i < t.tiles; i += 6, next += step * t.depth)
            kProduct[t.tiles - i < 6 ? t.tiles - i : 6](t.v + (p * t.tiles + i) * t.row, t.row, t.depth, u,
                                                        {next, step}, t.m + (p * t.tiles + i) * 64);
    }
}

/// Sums of 4 × 4 positions and 64 columns, [position][64].
RG_SIMD void transform_output(IntegerWinograd const& t, int64_t tile, int64_t column, int32_t* sums) {
    // The inverse of 9 modulo 2^32.
    __m512i const inverse = _mm512_set1_epi32(954437177);
    for (int64_t k = 0; k < 4; ++k) {
        int32_t const* m = t.m + tile * 64 + k * 16;
        __m512i columns[6][4], add = _mm512_loadu_si512(t.y.column_add + column + k * 16);
#pragma GCC unroll 6
        for (int64_t i = 0; i < 6; ++i) {
            __m512i line[6];
#pragma GCC unroll 6
            for (int64_t j = 0; j < 6; ++j) line[j] = _mm512_loadu_si512(m + (i * 6 + j) * t.tiles * 64);
            gather_output(line, columns[i]);
        }
#pragma GCC unroll 4
        for (int64_t x = 0; x < 4; ++x) {
            __m512i line[6] = {columns[0][x], columns[1][x], columns[2][x],
                               columns[3][x], columns[4][x], columns[5][x]};
            __m512i y[4];
            gather_output(line, y);
#pragma GCC unroll 4
            for (int64_t i = 0; i < 4; ++i) {
                __m512i sum = _mm512_srai_epi32(_mm512_mullo_epi32(y[i], inverse), 6);
                _mm512_store_si512(sums + (i * 4 + x) * 64 + k * 16, _mm512_add_epi32(sum, add));
            }
        }
    }
}

void winograd(IntegerWinograd const& t) {
    for (int64_t i = 0; i < t.tiles; ++i) {
        int64_t tile = t.first + i, top = tile / t.tile_columns * 4 - t.pad_top;
        int64_t left = tile % t.tile_columns * 4 - t.pad_left;
        for (int64_t c = 0; c < t.channels; c += 32)
            transform_input(t, top, left, c, t.v + i * t.row + c, t.tiles * t.row);
    }
    Finish f = finish_of(t.y.tail);
    f.kind = kind_of(t.y, f);
    alignas(64) int32_t sums[16 * 64];
    for (int64_t panel = t.panel_begin; panel < t.panel_end; ++panel) {
        winograd_products(t, panel);
        for (int64_t i = 0; i < t.tiles; ++i) {
            transform_output(t, i, panel * 64, sums);
            int64_t tile = t.first + i, x = tile % t.tile_columns * 4;
            int64_t width = t.out_width - x < 4 ? t.out_width - x : 4;
            for (int64_t line = 0, y = tile / t.tile_columns * 4; line < 4 && y < t.out_height; ++line, ++y) {
                int32_t const* from = sums + line * 256;
                int64_t first = y * t.out_width + x;
                if (width < 4 || f.kind == Finish::Kind::Any) {
                    store_sums(t.y, f, from, static_cast<int>(width), 4, first, panel * 64);
                    continue;
                }
                Lanes c[4][4];
#pragma GCC unroll 16
                for (int j = 0; j < 16; ++j) c[j / 4][j % 4] = Lanes::load(from + j * 16);
                store_tile(t.y, f, c, first, panel * 64);
            }
        }
    }
}

}  // namespace
}  // namespace refactor::kernel
