#include "integer_conv/integer_winograd.h"

#include "movement/transpose_small.h"

#include <algorithm>
#include <cstring>

namespace refactor::kernel {

namespace {

uint8_t zero_of(void const* zeros, bool many_zeros, int64_t n) {
    return zeros ? static_cast<uint8_t const*>(zeros)[many_zeros ? n : 0] : uint8_t{0};
}

}  // namespace

bool WinogradWeights::exact(void const* w, bool is_signed, void const* zeros, bool many_zeros) const {
    constexpr int64_t kBound = int64_t{1} << 25, kMostWeights = int64_t{1} << 23;
    // The largest number of U is 16 times a sum of nine weights; no other can leave i16.
    constexpr int kMostOfFilter = 32767 / 16, kMostAlone = kMostOfFilter / 9;
    auto const flip = static_cast<uint8_t>(is_signed ? 0x80 : 0);
    auto filters = in_channels * 9;
    if (filters > kMostWeights) return false;
    auto const* row = static_cast<uint8_t const*>(w);
    for (int64_t n = 0; n < out_channels; ++n, row += filters) {
        int zero = zero_of(zeros, many_zeros, n) ^ flip, sum = 0, most = 0;
        auto size = [&](int64_t i) { return std::abs((row[i] ^ flip) - zero); };
        for (int64_t i = 0; i < filters; ++i) sum += size(i), most = std::max(most, size(i));
        if (255 * int64_t{sum} >= kBound) return false;
        for (int64_t i = 0; most > kMostAlone && i < filters; i += 9) {
            int of_filter = 0;
            for (int64_t k = i; k < i + 9; ++k) of_filter += size(k);
            if (of_filter > kMostOfFilter) return false;
        }
    }
    return true;
}

void WinogradWeights::pack(IntegerFunctions const& f, void const* w, bool is_signed, void const* zeros, bool many_zeros,
                           void* target) const {
    auto* u = static_cast<int32_t*>(target);
    auto filters = in_channels * 9;
    std::vector<uint8_t> rows(static_cast<size_t>(depth() * 18 * panel)), zero(static_cast<size_t>(panel));
    for (int64_t first = 0; first < out_channels; first += panel, u += panel_dwords()) {
        auto count = std::min(panel, out_channels - first);
        for (int64_t j = 0; j < count; ++j) zero[static_cast<size_t>(j)] = zero_of(zeros, many_zeros, first + j);
        // Columns and a channel that do not exist are zero.
        if (count < panel)
            std::fill(rows.begin(), rows.end(), uint8_t{0}), std::fill(zero.begin() + count, zero.end(), uint8_t{0});
        for (auto i = filters; i < depth() * 18; ++i) std::copy(zero.begin(), zero.end(), rows.begin() + i * panel);
        transpose_bytes(static_cast<uint8_t const*>(w) + first * filters, filters, count, filters, count * filters,
                        rows.data(), panel);
        f.winograd_filters({rows.data(), is_signed, zero.data(), depth(), u});
    }
}

}  // namespace refactor::kernel
