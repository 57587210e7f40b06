#include "integer_matmul/integer_pack.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

namespace refactor::kernel {

namespace {

/// Element (k, j) as it lies in a cell, what becomes a dword, and as a number.
template <class Source, int bits>
int32_t code_of(Source x, int32_t& sum) {
    constexpr int32_t kShift = bits == 8 && !std::is_signed_v<Source> ? -128 : 0;
    int32_t value = x + kShift;
    sum += value;
    return value & ((1 << bits) - 1);
}

template <class Source, class Cell, size_t group>
void pack_panel(Source const* b, std::span<int64_t const> k_offsets, int64_t columns, int64_t column_step,
                int64_t panel, Cell* target, int32_t* sums) {
    constexpr int kBits = 8 * sizeof(Cell) / group;
    for (int64_t j = 0; j < panel; ++j) sums[j] = 0;
    for (size_t k = 0; k < k_offsets.size(); k += group, target += panel) {
        for (int64_t j = 0; j < columns; ++j) {
            int32_t cell = 0;
            for (size_t i = 0; i < group; ++i)
                if (k_offsets[k + i] >= 0)
                    cell |= code_of<Source, kBits>(b[k_offsets[k + i] + j * column_step], sums[j]) << (kBits * i);
            target[j] = static_cast<Cell>(cell);
        }
        for (int64_t j = columns; j < panel; ++j) target[j] = 0;
    }
}

void pack_panel(IntegerFunctions const& f, void const* b, bool is_signed, std::span<int64_t const> k_offsets,
                int64_t columns, int64_t column_step, int32_t* target, int32_t* sums) {
    auto pack = [&](auto const* source) {
        using Source = std::remove_cvref_t<decltype(*source)>;
        if (f.narrow)
            pack_panel<Source, int16_t, 2>(source, k_offsets, columns, column_step, f.panel,
                                           reinterpret_cast<int16_t*>(target), sums);
        else if (f.is_bytes())
            pack_panel<Source, int32_t, 4>(source, k_offsets, columns, column_step, f.panel, target, sums);
        else
            pack_panel<Source, int32_t, 2>(source, k_offsets, columns, column_step, f.panel, target, sums);
    };
    is_signed ? pack(static_cast<int8_t const*>(b)) : pack(static_cast<uint8_t const*>(b));
}

/// Of a pair of weights of one sign: 255 times so much fits i16. If signs differ, each product fits by itself.
constexpr int32_t kMostOfPair = 128;

int32_t byte_of(int32_t dword, int i) { return static_cast<int8_t>(static_cast<uint32_t>(dword) >> (8 * i)); }

bool overflows(int32_t dword) {
    return std::abs(byte_of(dword, 0) + byte_of(dword, 1)) > kMostOfPair ||
           std::abs(byte_of(dword, 2) + byte_of(dword, 3)) > kMostOfPair;
}
bool overflow(int32_t const* dwords, int width) { return std::any_of(dwords, dwords + width, overflows); }

/// Takes out of the pairs of a dword what may not fit.
int32_t take_out(int32_t& dword) {
    uint32_t kept = 0, taken = 0;
    for (int i = 0; i < 4; i += 2) {
        auto first = byte_of(dword, i), second = byte_of(dword, i + 1);
        auto excess = std::max(0, std::abs(first + second) - kMostOfPair), sign = first + second < 0 ? -1 : 1;
        auto of_first = std::min(excess, std::abs(first)) * sign, of_second = excess * sign - of_first;
        auto pair = [i](int32_t a, int32_t b) {
            return ((static_cast<uint32_t>(a) & 0xff) | (static_cast<uint32_t>(b) & 0xff) << 8) << (8 * i);
        };
        kept |= pair(first - of_first, second - of_second), taken |= pair(of_first, of_second);
    }
    dword = static_cast<int32_t>(kept);
    return static_cast<int32_t>(taken);
}

/// Spills of packed panels, one vector of columns after the other.
class SpillWriter {
    int width_, panel_;
    int64_t run_depth_;
    int32_t *first_, *places_, *weights_, count_ = 0;

public:
    SpillWriter(IntegerFunctions const& f, PackedSize const& size, int64_t run_depth, int32_t* table)
        : width_(f.width),
          panel_(f.panel),
          run_depth_(run_depth),
          first_(table),
          places_(table + size.columns / f.width + 1),
          weights_(places_ + 2 * size.spills) {
        *first_ = 0;
    }
    void add(int32_t* panel, int64_t depth) {
        for (int64_t v = 0; v < panel_; v += width_) {
            for (int64_t k = 0; k < depth; ++k)
                if (auto* dwords = panel + k * panel_ + v; overflow(dwords, width_)) {
                    *places_++ = static_cast<int32_t>(k / run_depth_);
                    *places_++ = static_cast<int32_t>(k % run_depth_ * 4);
                    for (int i = 0; i < width_; ++i) *weights_++ = take_out(dwords[i]);
                    ++count_;
                }
            *++first_ = count_;
        }
    }
};

}  // namespace

void pack_columns(IntegerFunctions const& f, void const* b, bool is_signed, std::span<int64_t const> k_offsets,
                  int64_t n, int64_t column_step, PackedSize const& size, int64_t run_depth, int32_t* target) {
    auto depth = static_cast<int64_t>(k_offsets.size()) / f.group;
    auto* sums = target + size.dwords;
    std::optional<SpillWriter> spills;
    if (f.spills) spills.emplace(f, size, run_depth, sums + size.columns);
    auto dwords = depth * f.panel * f.cell_bytes() / 4;
    for (int64_t j = 0; j < n; j += f.panel, target += dwords, sums += f.panel) {
        pack_panel(f, static_cast<uint8_t const*>(b) + j * column_step, is_signed, k_offsets,
                   std::min<int64_t>(f.panel, n - j), column_step, target, sums);
        if (spills) spills->add(target, depth);
    }
}

std::optional<int64_t> count_spills(IntegerFunctions const& f, void const* b, bool is_signed,
                                    std::span<int64_t const> k_offsets, int64_t n, int64_t column_step) {
    constexpr double kMost = 0.2;
    auto dwords = static_cast<int64_t>(k_offsets.size()) / f.group * f.panel;
    std::vector<int32_t> panel(static_cast<size_t>(dwords + f.panel));
    auto count_every = [&](int64_t step) -> std::optional<int64_t> {
        int64_t count = 0, vectors = 0;
        for (int64_t j = 0; j < n; j += step * f.panel, vectors += dwords / f.width) {
            pack_panel(f, static_cast<uint8_t const*>(b) + j * column_step, is_signed, k_offsets,
                       std::min<int64_t>(f.panel, n - j), column_step, panel.data(), panel.data() + dwords);
            for (int64_t at = 0; at < dwords; at += f.width) count += overflow(panel.data() + at, f.width);
        }
        if (static_cast<double>(count) > kMost * static_cast<double>(vectors)) return std::nullopt;
        return count;
    };
    constexpr int64_t kSample = 8;
    if (!count_every(kSample)) return std::nullopt;
    return count_every(1);
}

double slowdown_of_spills(IntegerFunctions const& f, PackedSize const& size) {
    if (!f.spills) return 1;
    auto vectors = static_cast<double>(std::max<int64_t>(1, size.dwords / f.width));
    return 1.55 + 2.5 * static_cast<double>(size.spills) / vectors;
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
