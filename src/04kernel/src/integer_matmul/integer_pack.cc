#include "integer_matmul/integer_pack.h"

#include <cstring>

namespace refactor::kernel {

namespace {

/// Element (k, j) as it lies in a dword, and as a number.
template <class Source, bool bytes>
int32_t code_of(Source x, int32_t& sum) {
    constexpr int32_t kShift = bytes && !std::is_signed_v<Source> ? -128 : 0;
    int32_t value = x + kShift;
    sum += value;
    return value & (bytes ? 0xff : 0xffff);
}

template <class Source, bool bytes>
void pack_panel(Source const* b, std::span<int64_t const> k_offsets, int64_t columns, int64_t column_step,
                int64_t panel, int32_t* target, int32_t* sums) {
    constexpr size_t kGroup = bytes ? 4 : 2;
    constexpr int kBits = bytes ? 8 : 16;
    for (int64_t j = 0; j < panel; ++j) sums[j] = 0;
    for (size_t k = 0; k < k_offsets.size(); k += kGroup, target += panel) {
        for (int64_t j = 0; j < columns; ++j) {
            int32_t dword = 0;
            for (size_t i = 0; i < kGroup; ++i)
                if (k_offsets[k + i] >= 0)
                    dword |= code_of<Source, bytes>(b[k_offsets[k + i] + j * column_step], sums[j]) << (kBits * i);
            target[j] = dword;
        }
        for (int64_t j = columns; j < panel; ++j) target[j] = 0;
    }
}

template <class Source, bool bytes>
void stage(Source const* a, int64_t rows, int64_t k, int64_t target_bytes, uint8_t* target, int32_t* sums) {
    using Target = std::conditional_t<bytes, uint8_t, int16_t>;
    constexpr int32_t kShift = bytes && std::is_signed_v<Source> ? 128 : 0;
    for (int64_t r = 0; r < rows; ++r, a += k, target += target_bytes) {
        auto* row = reinterpret_cast<Target*>(target);
        int32_t sum = 0;
        if constexpr (std::is_same_v<Source, Target>)
            std::memcpy(row, a, static_cast<size_t>(k));
        else
            for (int64_t i = 0; i < k; ++i) row[i] = static_cast<Target>(a[i] + kShift);
        for (auto i = k; i < target_bytes / static_cast<int64_t>(sizeof(Target)); ++i) row[i] = 0;
        if (!sums) continue;
        for (int64_t i = 0; i < k; ++i) sum += row[i];
        sums[r] = sum;
    }
}

}  // namespace

void pack_columns(IntegerFunctions const& f, void const* b, bool is_signed, std::span<int64_t const> k_offsets,
                  int64_t n, int64_t column_step, int32_t* target) {
    auto depth = static_cast<int64_t>(k_offsets.size()) / f.group;
    auto* sums = target + PackedSize(f, n, depth).dwords;
    for (int64_t j = 0; j < n; j += f.panel, target += depth * f.panel, sums += f.panel) {
        auto columns = n - j < f.panel ? n - j : f.panel;
        auto const* first = static_cast<uint8_t const*>(b) + j * column_step;
        auto const* first_signed = reinterpret_cast<int8_t const*>(first);
        if (f.is_bytes() && is_signed)
            pack_panel<int8_t, true>(first_signed, k_offsets, columns, column_step, f.panel, target, sums);
        else if (f.is_bytes())
            pack_panel<uint8_t, true>(first, k_offsets, columns, column_step, f.panel, target, sums);
        else if (is_signed)
            pack_panel<int8_t, false>(first_signed, k_offsets, columns, column_step, f.panel, target, sums);
        else
            pack_panel<uint8_t, false>(first, k_offsets, columns, column_step, f.panel, target, sums);
    }
}

void stage_rows(IntegerFunctions const& f, void const* a, bool is_signed, int64_t rows, int64_t k, uint8_t* target,
                int32_t* sums) {
    auto bytes = row_bytes(f, k);
    auto const* x = static_cast<uint8_t const*>(a);
    auto const* x_signed = static_cast<int8_t const*>(a);
    if (f.is_bytes() && is_signed)
        stage<int8_t, true>(x_signed, rows, k, bytes, target, sums);
    else if (f.is_bytes())
        stage<uint8_t, true>(x, rows, k, bytes, target, sums);
    else if (is_signed)
        stage<int8_t, false>(x_signed, rows, k, bytes, target, sums);
    else
        stage<uint8_t, false>(x, rows, k, bytes, target, sums);
}

int32_t sum_of(IntegerFunctions const& f, uint8_t const* row, int64_t count) {
    int32_t sum = 0;
    if (f.is_bytes()) {
        for (int64_t i = 0; i < count; ++i) sum += row[i];
        return sum;
    }
    auto const* words = reinterpret_cast<int16_t const*>(row);
    for (int64_t i = 0; i < count; ++i) sum += words[i];
    return sum;
}

}  // namespace refactor::kernel
