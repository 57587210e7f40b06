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
    auto bytes = row_bytes(f, k), used = k * f.element_bytes();
    auto const* x = static_cast<uint8_t const*>(a);
    for (int64_t r = 0; r < rows; ++r, x += k, target += bytes) {
        f.widen(x, is_signed, k, target);
        std::memset(target + used, 0, static_cast<size_t>(bytes - used));
        if (sums) sums[r] = f.sum(target, k);
    }
}

}  // namespace refactor::kernel
