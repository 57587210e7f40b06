#pragma once
// B packed in registers; include behind `integer_depthwise_vnni.h`, for AVX-512 VNNI only; `integer_pack_bytes.h` is
// that of AVX2.

namespace refactor::kernel {
namespace {

/// Four rows of a panel at a time: their bytes are interleaved in lanes, in front of which dwords are reordered so that
/// columns come out in order. `vectors`: of a panel.
template <int vectors>
void pack_rows(IntegerRows const& t) {
    constexpr int64_t kColumns = vectors * kWidth;
    __m512i const order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i const flip = _mm512_set1_epi8(static_cast<char>(t.is_signed ? 0 : 0x80)), ones = _mm512_set1_epi8(1);
    int32_t *panel = t.panels, *sums = t.sums;
    for (int64_t j = 0; j < t.n; j += kColumns, sums += kColumns) {
        __mmask64 mask = first_bytes(t.n - j) & first_bytes(kColumns);
        __m512i total[4] = {};
        for (int64_t k = 0; k < t.k; k += 4, panel += kColumns) {
            __m512i rows[4] = {}, quad[4];
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i)
                if (k + i < t.k) {
                    __m512i row = _mm512_maskz_loadu_epi8(mask, t.b + (k + i) * t.row + j);
                    rows[i] = _mm512_permutexvar_epi32(order, _mm512_maskz_mov_epi8(mask, _mm512_xor_si512(row, flip)));
                }
            interleave(rows, quad);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) {
                _mm512_storeu_si512(panel + v * kWidth, quad[v]);
                total[v] = _mm512_dpbusd_epi32(total[v], ones, quad[v]);
            }
        }
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) _mm512_storeu_si512(sums + v * kWidth, total[v]);
    }
}

}  // namespace
}  // namespace refactor::kernel
