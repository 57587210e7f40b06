#include "integer_conv/integer_winograd.h"

#include "movement/transpose_small.h"

#include <algorithm>
#include <cstring>

namespace refactor::kernel {

void WinogradWeights::pack(IntegerFunctions const& f, void const* w, bool is_signed, void const* zeros, bool many_zeros,
                           void* target) const {
    constexpr int64_t kBound = int64_t{1} << 25;
    auto* header = static_cast<uint8_t*>(target);
    std::memset(header, 0, 64);
    auto* u = reinterpret_cast<int32_t*>(header + 64);
    auto zero_of = [&](int64_t n) { return zeros ? byte_at(zeros, is_signed, many_zeros ? n : 0) : 0; };
    auto filter = in_channels * 9;
    std::vector<uint8_t> rows(static_cast<size_t>(depth() * 18 * panel));
    std::vector<int32_t> zero(static_cast<size_t>(panel)), sums(zero.size());
    bool exact = true;
    for (int64_t first = 0; first < out_channels; first += panel, u += panel_dwords()) {
        auto count = std::min(panel, out_channels - first);
        // Columns and a channel that do not exist are zero.
        std::fill(zero.begin(), zero.end(), 0);
        for (int64_t j = 0; j < count; ++j) zero[static_cast<size_t>(j)] = zero_of(first + j);
        if (count < panel) std::fill(rows.begin(), rows.end(), uint8_t{0});
        for (auto i = filter; i < depth() * 18; ++i)
            for (int64_t j = 0; j < panel; ++j)
                rows[static_cast<size_t>(i * panel + j)] = static_cast<uint8_t>(zero[static_cast<size_t>(j)]);
        transpose_bytes(static_cast<uint8_t const*>(w) + first * filter, filter, count, filter, count * filter,
                        rows.data(), panel);
        exact &= f.winograd_filters({rows.data(), is_signed, zero.data(), depth(), u, sums.data()});
        for (auto sum : sums) exact = exact && 255 * int64_t{sum} < kBound;
    }
    header[0] = exact;
}

}  // namespace refactor::kernel
