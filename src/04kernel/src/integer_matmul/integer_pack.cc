#include "integer_matmul/integer_pack.h"

#include "movement/transpose_small.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

namespace refactor::kernel {

namespace {

/// Columns of B panel by panel as `pack_rows` takes them, [k][columns].
class PanelRows {
    IntegerFunctions const& f_;
    uint8_t const* b_;
    bool is_signed_;
    std::span<int64_t const> k_offsets_;
    int64_t n_, column_step_;
    std::vector<uint8_t> columns_, rows_;

    /// All that the columns hold, in its order.
    uint8_t const* transpose(uint8_t const* first, int64_t columns) {
        auto count = 1 + *std::max_element(k_offsets_.begin(), k_offsets_.end());
        columns_.resize(static_cast<size_t>(count * columns));
        transpose_bytes(first, column_step_, columns, count, (columns - 1) * column_step_ + count, columns_.data(),
                        columns);
        return columns_.data();
    }

public:
    PanelRows(IntegerFunctions const& f, void const* b, bool is_signed, std::span<int64_t const> k_offsets, int64_t n,
              int64_t column_step)
        : f_(f),
          b_(static_cast<uint8_t const*>(b)),
          is_signed_(is_signed),
          k_offsets_(k_offsets),
          n_(n),
          column_step_(column_step) {}
    /// Packs the panel that begins with column `j`.
    void pack(int64_t j, int32_t* target, int32_t* sums) {
        auto columns = std::min<int64_t>(f_.panel, n_ - j), step = int64_t{1};
        auto const* from = b_ + j * column_step_;
        if (column_step_ != 1) from = transpose(from, columns), step = columns;
        rows_.resize(k_offsets_.size() * static_cast<size_t>(columns));
        auto* row = rows_.data();
        for (auto offset : k_offsets_) {
            // An element that is 0 when packed.
            if (offset < 0)
                std::fill_n(row, columns, static_cast<uint8_t>(-b_shift(f_, is_signed_)));
            else
                std::memcpy(row, from + offset * step, static_cast<size_t>(columns));
            row += columns;
        }
        f_.pack_rows({rows_.data(), is_signed_, static_cast<int64_t>(k_offsets_.size()), columns, target, sums});
    }
};

/// Of a pair of weights of one sign: 255 times so much fits i16. If signs differ, each product fits by itself.
constexpr int32_t kMostOfPair = 128;

int32_t byte_of(int32_t dword, int i) { return static_cast<int8_t>(static_cast<uint32_t>(dword) >> (8 * i)); }

/// Whether some of them have pairs whose products may not fit.
bool overflow(int32_t const* dwords, int width) {
    int32_t most = 0;
    for (int i = 0; i < width; ++i)
        most = std::max({most, std::abs(byte_of(dwords[i], 0) + byte_of(dwords[i], 1)),
                         std::abs(byte_of(dwords[i], 2) + byte_of(dwords[i], 3))});
    return most > kMostOfPair;
}

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
    PanelRows rows(f, b, is_signed, k_offsets, n, column_step);
    for (int64_t j = 0; j < n; j += f.panel, target += depth * f.panel, sums += f.panel) {
        rows.pack(j, target, sums);
        if (spills) spills->add(target, depth);
    }
}

std::optional<int64_t> count_spills(IntegerFunctions const& f, void const* b, bool is_signed,
                                    std::span<int64_t const> k_offsets, int64_t n, int64_t column_step) {
    constexpr double kMost = 0.2;
    auto dwords = static_cast<int64_t>(k_offsets.size()) / f.group * f.panel;
    std::vector<int32_t> panel(static_cast<size_t>(dwords + f.panel));
    PanelRows rows(f, b, is_signed, k_offsets, n, column_step);
    auto count_every = [&](int64_t step) -> std::optional<int64_t> {
        int64_t count = 0, vectors = 0;
        for (int64_t j = 0; j < n; j += step * f.panel, vectors += dwords / f.width) {
            rows.pack(j, panel.data(), panel.data() + dwords);
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
