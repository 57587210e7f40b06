#pragma once
// B packed in registers, as words; include behind `integer_product_impl.h` where a dword holds two of them.

namespace refactor::kernel {
namespace {

template <bool is_signed>
void pack_word_rows(IntegerRows const& t) {
    auto load = [](uint8_t const* p) { return is_signed ? Lanes::load_signed(p) : Lanes::load_bytes(p); };
    // Where a row is missing, and rows of the last columns.
    uint8_t zeros[kPanel] = {}, ends[2][kPanel] = {};
    int32_t *panel = t.panels, *sums = t.sums;
    for (int64_t j = 0; j < t.n; j += kPanel, sums += kPanel) {
        Lanes total[RG_VECTORS];
        for (auto& sum : total) sum = Lanes::zero();
        for (int64_t k = 0; k < t.k; k += 2, panel += kPanel) {
            uint8_t const* rows[2] = {t.b + k * t.row + j, k + 1 < t.k ? t.b + (k + 1) * t.row + j : zeros};
            if (t.n - j < kPanel)
                for (int i = 0; i < 2; ++i) {
                    for (int64_t c = 0; c < t.n - j; ++c) ends[i][c] = rows[i][c];
                    rows[i] = ends[i];
                }
#pragma GCC unroll 4
            for (int v = 0; v < RG_VECTORS; ++v) {
                Lanes low = load(rows[0] + v * kWidth), high = load(rows[1] + v * kWidth);
                total[v] = total[v] + low + high;
                // A negative low word borrows from the high one.
                (((high - (low >> 31)) << 16) + low).store(panel + v * kWidth);
            }
        }
        for (int v = 0; v < RG_VECTORS; ++v) total[v].store(sums + v * kWidth);
    }
}

void pack_rows(IntegerRows const& t) { t.is_signed ? pack_word_rows<true>(t) : pack_word_rows<false>(t); }

}  // namespace
}  // namespace refactor::kernel
