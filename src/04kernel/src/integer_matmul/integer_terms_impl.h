#pragma once
// What is made of rows of A and of columns of B before they are multiplied; part of `integer_product_impl.h`.

namespace refactor::kernel {
namespace {

RG_SIMD int32_t zero_at(IntegerTerms const& t, int64_t j) {
    if (!t.zeros) return t.zero_shift;
    return (t.zeros_signed ? static_cast<int8_t>(t.zeros[j]) : t.zeros[j]) + t.zero_shift;
}

void terms(IntegerTerms const& t) {
    int32_t* __restrict zero = t.zero;
    int32_t* __restrict sum = t.sum, * __restrict add = t.add;
    float* __restrict scale = t.scale;
    auto k = static_cast<uint32_t>(t.k), row_zero = static_cast<uint32_t>(t.row_zero);
    int32_t first = zero_at(t, 0);
    for (int64_t j = 0; j < t.n; ++j) zero[j] = first;
    if (t.many_zeros)
        for (int64_t j = 0; j < t.n; ++j) zero[j] = zero_at(t, j);
    for (int64_t j = 0; j < t.n; ++j)
        sum[j] = static_cast<int32_t>(static_cast<uint32_t>(t.sums[j]) - k * static_cast<uint32_t>(zero[j]));
    for (int64_t j = 0; j < t.n; ++j) add[j] = static_cast<int32_t>(0 - row_zero * static_cast<uint32_t>(sum[j]));
    if (t.bias)
        for (int64_t j = 0; j < t.n; ++j)
            add[j] = static_cast<int32_t>(static_cast<uint32_t>(add[j]) + static_cast<uint32_t>(t.bias[j]));
    if (t.scales)
        for (int64_t j = 0; j < t.n; ++j) scale[j] = t.scales[t.many_scales ? j : 0];
    // What lies behind the last column is computed with, not stored.
    for (int64_t j = t.n; j < t.columns; ++j) zero[j] = sum[j] = add[j] = 0, scale[j] = 0;
}

void widen(uint8_t const* source, bool is_signed, int64_t n, uint8_t* target) {
    if (RG_GROUP == 4) {
        uint8_t flip = is_signed ? 0x80 : 0;
        for (int64_t i = 0; i < n; ++i) target[i] = source[i] ^ flip;
        return;
    }
    auto* words = reinterpret_cast<int16_t*>(target);
    if (is_signed)
        for (int64_t i = 0; i < n; ++i) words[i] = static_cast<int8_t>(source[i]);
    else
        for (int64_t i = 0; i < n; ++i) words[i] = source[i];
}

int32_t sum(uint8_t const* row, int64_t n) {
    constexpr int64_t kStep = kWidth * RG_GROUP;
    Lanes const ones = Lanes::set(RG_GROUP == 4 ? 0x01010101 : 0x00010001);
    Lanes sums = Lanes::zero();
    int64_t i = 0;
    for (; i + kStep <= n; i += kStep) sums = dot(sums, Lanes::load(row + i * (4 / RG_GROUP)), ones);
    alignas(64) int32_t parts[kWidth];
    sums.store(parts);
    int32_t total = 0;
    for (int32_t part : parts) total += part;
    auto const* words = reinterpret_cast<int16_t const*>(row);
    for (; i < n; ++i) total += RG_GROUP == 4 ? row[i] : words[i];
    return total;
}

}  // namespace
}  // namespace refactor::kernel
