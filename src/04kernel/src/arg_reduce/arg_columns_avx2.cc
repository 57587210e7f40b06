#include "arg_reduce/arg_columns.h"
#include "simd/vec_avx2.h"

namespace refactor::kernel {
namespace {

/// Lanes where x is better than `best`; NaN is better than any number.
template <bool kLast>
RG_SIMD Mask better(Vec x, Vec best) {
    Mask number{_mm256_cmp_ps(best.v, best.v, _CMP_ORD_Q)};
    if constexpr (kLast)
        return Mask{_mm256_cmp_ps(x.v, best.v, _CMP_NLT_UQ)} & (number | is_nan(x));
    else
        return Mask{_mm256_cmp_ps(x.v, best.v, _CMP_NLE_UQ)} & number;
}

/// `kVectors` vectors of columns, the last of which has `lanes` lanes.
template <bool kLast, int kVectors>
RG_SIMD void search(ArgColumns const& c, int64_t column, int lanes) {
    Vec best[kVectors], index[kVectors], sign = Vec::set(c.min ? -0.f : 0.f);
    auto load = [&](int64_t row, int i) {
        auto const* from = c.x + row * c.stride + column + i * Vec::width;
        bool whole = i + 1 < kVectors || lanes == Vec::width;
        return bit_xor(whole ? Vec::load(from) : Vec::load_first(from, lanes), sign);
    };
    for (int i = 0; i < kVectors; ++i) best[i] = load(0, i), index[i] = Vec::zero();
    for (int64_t row = 1; row < c.size; ++row) {
        Vec number{_mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(row)))};
        for (int i = 0; i < kVectors; ++i) {
            Vec x = load(row, i);
            Mask mask = better<kLast>(x, best[i]);
            best[i] = select(mask, x, best[i]), index[i] = select(mask, number, index[i]);
        }
    }
    for (int i = 0; i < kVectors; ++i) {
        alignas(32) int32_t rows[Vec::width];
        _mm256_store_si256(reinterpret_cast<__m256i*>(rows), _mm256_castps_si256(index[i].v));
        int count = i + 1 < kVectors ? Vec::width : lanes;
        for (int k = 0; k < count; ++k) c.y[column + i * Vec::width + k] = rows[k];
    }
}

template <bool kLast>
void search_all(ArgColumns const& c) {
    constexpr int kVectors = 4;
    int64_t column = 0;
    for (; column + kVectors * Vec::width <= c.columns; column += kVectors * Vec::width)
        search<kLast, kVectors>(c, column, Vec::width);
    for (; column < c.columns; column += Vec::width) {
        auto left = c.columns - column;
        search<kLast, 1>(c, column, left < Vec::width ? static_cast<int>(left) : Vec::width);
    }
}

}  // namespace

void arg_columns_avx2(ArgColumns const& c) { c.last ? search_all<true>(c) : search_all<false>(c); }

}  // namespace refactor::kernel
