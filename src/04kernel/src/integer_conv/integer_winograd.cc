#include "integer_conv/integer_winograd.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace refactor::kernel {

namespace {

/// Weights of two input channels and some output channels of a panel, as they lie beside each other in a product.
constexpr int64_t kColumns = 16, kLanes = 2 * kColumns;
using Lanes = int32_t[kLanes];

/// Three numbers along one axis as six.
void spread(Lanes const& a, Lanes const& b, Lanes const& c, Lanes* const (&u)[6]) {
    for (int64_t i = 0; i < kLanes; ++i) {
        auto outer = a[i] + c[i], wide = a[i] + 4 * c[i];
        (*u[0])[i] = 6 * a[i];
        (*u[1])[i] = -4 * (outer + b[i]), (*u[2])[i] = -4 * (outer - b[i]);
        (*u[3])[i] = wide + 2 * b[i], (*u[4])[i] = wide - 2 * b[i];
        (*u[5])[i] = 6 * c[i];
    }
}

/// All of `g`, rows of three, into `u`, rows of six.
void transform(Lanes const (&g)[9], Lanes (&u)[36]) {
    Lanes rows[3][6];
    for (int i = 0; i < 3; ++i) {
        auto& r = rows[i];
        spread(g[3 * i], g[3 * i + 1], g[3 * i + 2], {&r[0], &r[1], &r[2], &r[3], &r[4], &r[5]});
    }
    for (int x = 0; x < 6; ++x)
        spread(rows[0][x], rows[1][x], rows[2][x], {&u[x], &u[6 + x], &u[12 + x], &u[18 + x], &u[24 + x], &u[30 + x]});
}

}  // namespace

void WinogradWeights::pack(void const* w, bool is_signed, void const* zeros, bool many_zeros, void* target) const {
    constexpr int64_t kBound = int64_t{1} << 25;
    auto* header = static_cast<uint8_t*>(target);
    std::memset(header, 0, 64);
    auto* words = reinterpret_cast<int16_t*>(header + 64);
    bool exact = true;
    for (int64_t first = 0, count = 0; first < columns(); first += count) {
        count = std::min(kColumns, panel - first % panel);
        int64_t most[kColumns] = {};  // of |results|
        for (int64_t pair = 0; pair < depth(); ++pair) {
            Lanes g[9] = {}, u[36];
            for (int64_t lane = 0; lane < 2 * count; ++lane) {
                auto n = first + lane / 2, c = 2 * pair + lane % 2;
                if (n >= out_channels || c == in_channels) continue;
                auto zero = zeros ? byte_at(zeros, is_signed, many_zeros ? n : 0) : 0;
                for (int i = 0; i < 9; ++i) {
                    g[i][lane] = byte_at(w, is_signed, (n * in_channels + c) * 9 + i) - zero;
                    most[lane / 2] += 255 * std::abs(g[i][lane]);
                }
            }
            transform(g, u);
            auto* line = words + (first / panel * panel_dwords() + pair * panel + first % panel) * 2;
            for (int64_t p = 0; p < kProducts; ++p, line += depth() * panel * 2)
                for (int64_t lane = 0; lane < 2 * count; ++lane) {
                    line[lane] = static_cast<int16_t>(u[p][lane]);
                    exact &= u[p][lane] == line[lane];
                }
        }
        exact = exact && std::all_of(most, most + count, [](int64_t sum) { return sum < kBound; });
    }
    header[0] = exact;
}

}  // namespace refactor::kernel
