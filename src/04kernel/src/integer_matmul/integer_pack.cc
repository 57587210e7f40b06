#include "integer_matmul/integer_pack.h"

#include "movement/transpose_small.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

namespace refactor::kernel {

namespace {

/// Packs one panel of columns after the other.
class PanelPacker {
    IntegerFunctions const& f_;
    IntegerMatrix const& b_;
    std::vector<uint8_t> columns_, rows_;

    /// [k][columns] from the columns' bytes.
    void gather(uint8_t const* first, int64_t columns) {
        auto count = 1 + *std::max_element(b_.k_offsets.begin(), b_.k_offsets.end());
        columns_.resize(static_cast<size_t>(count * columns)), rows_.resize(static_cast<size_t>(b_.k * columns));
        transpose_bytes(first, b_.column_step, columns, count, (columns - 1) * b_.column_step + count, columns_.data(),
                        columns);
        auto zero = static_cast<uint8_t>(-b_shift(f_, b_.is_signed));
        auto* row = rows_.data();
        for (auto offset : b_.k_offsets) {
            auto const* from = columns_.data() + offset * columns;
            if (offset < 0)
                std::fill_n(row, columns, zero);
            else if (columns == 16)
                std::memcpy(row, from, 16);
            else
                std::memcpy(row, from, static_cast<size_t>(columns));
            row += columns;
        }
    }

public:
    PanelPacker(IntegerFunctions const& f, IntegerMatrix const& b) : f_(f), b_(b) {}
    /// That which begins with column `j`.
    void pack(int64_t j, int32_t* target, int32_t* sums) {
        auto columns = std::min<int64_t>(f_.panel, b_.n - j);
        auto const* b = static_cast<uint8_t const*>(b_.b);
        if (b_.k_offsets.empty()) return f_.pack_rows({b + j, b_.is_signed, b_.k, columns, b_.n, target, sums});
        gather(b + j * b_.column_step, columns);
        f_.pack_rows({rows_.data(), b_.is_signed, b_.k, columns, columns, target, sums});
    }
};

int32_t byte_of(int32_t dword, int i) { return static_cast<int8_t>(static_cast<uint32_t>(dword) >> (8 * i)); }

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
    IntegerFunctions const& f_;
    int64_t run_depth_;
    int32_t *first_, *places_, *weights_, count_ = 0;

public:
    SpillWriter(IntegerFunctions const& f, PackedSize const& size, int64_t run_depth, int32_t* table)
        : f_(f),
          run_depth_(run_depth),
          first_(table),
          places_(table + size.columns / f.width + 1),
          weights_(places_ + 2 * size.spills) {
        *first_ = 0;
    }
    void add(int32_t* panel, int64_t depth) {
        for (int64_t v = 0; v < f_.panel; v += f_.width) {
            for (int64_t k = 0; k < depth; ++k)
                if (auto* dwords = panel + k * f_.panel + v; f_.spills(dwords, 1)) {
                    *places_++ = static_cast<int32_t>(k / run_depth_);
                    *places_++ = static_cast<int32_t>(k % run_depth_ * 4);
                    for (int i = 0; i < f_.width; ++i) *weights_++ = take_out(dwords[i]);
                    ++count_;
                }
            *++first_ = count_;
        }
    }
};

}  // namespace

void pack_columns(IntegerFunctions const& f, IntegerMatrix const& b, PackedSize const& size, int64_t run_depth,
                  int32_t* target) {
    auto depth = (b.k + f.group - 1) / f.group;
    auto* sums = target + size.dwords;
    std::optional<SpillWriter> spills;
    if (f.spills) spills.emplace(f, size, run_depth, sums + size.columns);
    PanelPacker packer(f, b);
    auto dwords = depth * f.panel * f.cell_bytes() / 4;
    for (int64_t j = 0; j < b.n; j += f.panel, target += dwords, sums += f.panel) {
        packer.pack(j, target, sums);
        if (spills) spills->add(target, depth);
    }
}

std::optional<int64_t> count_spills(IntegerFunctions const& f, IntegerMatrix const& b) {
    constexpr double kMost = 0.2;
    auto dwords = (b.k + f.group - 1) / f.group * f.panel;
    std::vector<int32_t> panel(static_cast<size_t>(dwords + f.panel));
    PanelPacker packer(f, b);
    auto count_every = [&](int64_t step) -> std::optional<int64_t> {
        int64_t count = 0, vectors = 0;
        for (int64_t j = 0; j < b.n; j += step * f.panel, vectors += dwords / f.width) {
            packer.pack(j, panel.data(), panel.data() + dwords);
            count += f.spills(panel.data(), dwords / f.width);
        }
        if (static_cast<double>(count) > kMost * static_cast<double>(vectors)) return std::nullopt;
        return count;
    };
    constexpr int64_t kSample = 8;
    if (!count_every(kSample)) return std::nullopt;
    return count_every(1);
}

int64_t tile_dwords_of(IntegerFunctions const& f, int64_t runs, int64_t depth) {
    // Tiles take as long for fewer dwords: four make twice as many products as vectors in that time.
    constexpr int64_t kMost = 16, kLeast = 4;
    if (!f.tile_rows || runs * depth < kMost) return 0;
    for (auto dwords = kMost; dwords >= kLeast; --dwords)
        if (depth % dwords == 0) return dwords;
    return 0;
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
