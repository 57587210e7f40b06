#pragma once
// B packed in registers, as bytes, four k in a cell or two; include behind `integer_product_impl.h`, for AVX2.

namespace refactor::kernel {
namespace {

/// The rows of a cell at a time: bytes are interleaved, of four rows words, too, after which columns are in order.
void pack_rows(IntegerRows const& t) {
    static_assert(kPanel == 16);
    auto const sign = static_cast<char>(t.is_signed ? 0 : 0x80);
    __m128i const flip = _mm_set1_epi8(sign);
    Lanes const ones = Lanes::set(RG_GROUP == 4 ? 0x01010101 : 0x00010001);
    auto* cells = reinterpret_cast<Cell*>(t.panels);
    int32_t* sums = t.sums;
    for (int64_t j = 0; j < t.n; j += kPanel, sums += kPanel) {
        int64_t columns = t.n - j;
        Lanes total[2] = {Lanes::zero(), Lanes::zero()};
        auto load = [&](int64_t k) __attribute__((always_inline)) {
            if (k >= t.k) return _mm_setzero_si128();
            uint8_t const* row = t.b + k * t.row + j;
            if (columns >= kPanel) return _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<__m128i const*>(row)), flip);
            alignas(16) uint8_t part[kPanel];
            for (int64_t c = 0; c < kPanel; ++c) part[c] = c < columns ? row[c] : static_cast<uint8_t>(sign);
            return _mm_xor_si128(_mm_load_si128(reinterpret_cast<__m128i const*>(part)), flip);
        };
        for (int64_t k = 0; k < t.k; k += RG_GROUP, cells += kPanel) {
            __m128i a = load(k), b = load(k + 1), ab[2] = {_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)};
            if constexpr (RG_GROUP == 2) {
#pragma GCC unroll 2
                for (int v = 0; v < 2; ++v) {
                    auto* to = cells + v * kWidth;
                    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), ab[v]);
                    total[v] = dot(total[v], ones, load_cells(to));
                }
                continue;
            }
            __m128i c = load(k + 2), d = load(k + 3);
            __m128i cd[2] = {_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d)};
#pragma GCC unroll 2
            for (int v = 0; v < 2; ++v) {
                __m128i low = _mm_unpacklo_epi16(ab[v], cd[v]), high = _mm_unpackhi_epi16(ab[v], cd[v]);
                Lanes quads{_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1)};
                quads.store(cells + v * kWidth);
                total[v] = dot(total[v], ones, quads);
            }
        }
        for (int v = 0; v < 2; ++v) total[v].store(sums + v * kWidth);
    }
}

}  // namespace
}  // namespace refactor::kernel
