#include "integer_conv/integer_winograd.h"

#include <cstdlib>
#include <cstring>

namespace refactor::kernel {

namespace {

/// Three numbers along one axis as six.
void spread(int32_t const (&g)[3], int32_t (&u)[6]) {
    u[0] = 6 * g[0];
    u[1] = -4 * (g[0] + g[1] + g[2]), u[2] = -4 * (g[0] - g[1] + g[2]);
    u[3] = g[0] + 2 * g[1] + 4 * g[2], u[4] = g[0] - 2 * g[1] + 4 * g[2];
    u[5] = 6 * g[2];
}

void transform(int32_t const (&g)[3][3], int32_t (&u)[6][6]) {
    int32_t columns[3][6];
    for (int i = 0; i < 3; ++i) spread(g[i], columns[i]);
    for (int x = 0; x < 6; ++x) {
        int32_t line[6];
        spread({columns[0][x], columns[1][x], columns[2][x]}, line);
        for (int y = 0; y < 6; ++y) u[y][x] = line[y];
    }
}

}  // namespace

void WinogradWeights::pack(void const* w, bool is_signed, void const* zeros, bool many_zeros, void* target) const {
    constexpr int64_t kBound = int64_t{1} << 25;
    bool exact = true;
    auto* header = static_cast<uint8_t*>(target);
    std::memset(header, 0, bytes());
    auto* words = reinterpret_cast<int16_t*>(header + 64);
    for (int64_t n = 0; n < out_channels; ++n) {
        auto zero = zeros ? byte_at(zeros, is_signed, many_zeros ? n : 0) : 0;
        int64_t most = 0;  // of |results|
        auto* column = words + (n / panel * panel_dwords() + n % panel) * 2;
        for (int64_t c = 0; c < in_channels; ++c) {
            int32_t g[3][3], u[6][6];
            for (int i = 0; i < 9; ++i) {
                g[i / 3][i % 3] = byte_at(w, is_signed, (n * in_channels + c) * 9 + i) - zero;
                most += 255 * std::abs(g[i / 3][i % 3]);
            }
            transform(g, u);
            for (int64_t p = 0; p < kProducts; ++p) {
                auto value = u[p / 6][p % 6];
                exact = exact && value == static_cast<int16_t>(value);
                column[((p * depth() + c / 2) * panel) * 2 + c % 2] = static_cast<int16_t>(value);
            }
        }
        exact = exact && most < kBound;
    }
    header[0] = exact;
}

}  // namespace refactor::kernel
