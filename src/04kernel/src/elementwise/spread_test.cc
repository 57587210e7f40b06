#include "elementwise/spread.h"

#include <numeric>

#include <gtest/gtest.h>

namespace refactor::kernel::elementwise {
namespace {

struct Axes {
    Dims sizes, strides;  ///< strides in elements
};

/// The operand's offset in elements for a row.
int64_t offset_of(Axes const& axes, int64_t row) {
    int64_t offset = 0;
    for (auto i = axes.sizes.size(); i-- > 0; row /= axes.sizes[i]) offset += row % axes.sizes[i] * axes.strides[i];
    return offset;
}

void check(Axes const& axes, int64_t row, int32_t bytes, bool single, Isa isa) {
    LoopNest nest;
    nest.outer = axes.sizes, nest.row = row;
    nest.rows = std::accumulate(axes.sizes.begin(), axes.sizes.end(), int64_t{1}, std::multiplies<>());
    LoopNest::Input input{single ? Access::RowScalar : Access::Row, false, bytes, axes.strides};
    Spread spread(nest, input, isa);
    auto period = spread.period();
    ASSERT_EQ(nest.rows % period, 0);

    int64_t last = 0;
    for (int64_t r = 0; r < nest.rows; ++r) last = std::max(last, offset_of(axes, r));
    // Exactly as long as the operand, so that AddressSanitizer sees a read behind it.
    std::vector<uint8_t> from((last + (single ? 1 : row)) * bytes);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 7 + i / 251);
    constexpr size_t kBehind = 63, kGuard = 32;
    for (int64_t begin : {int64_t{0}, int64_t{1}, nest.rows / 2}) {
        auto rows = nest.rows - begin;
        auto written = static_cast<size_t>(rows * row * bytes);
        std::vector<uint8_t> to(written + kBehind + kGuard, 0xAB);
        spread.run(reinterpret_cast<std::byte const*>(from.data()), reinterpret_cast<std::byte*>(to.data()), begin,
                   rows);
        for (size_t i = 0; i < written; ++i) {
            auto element = static_cast<int64_t>(i) / bytes, at = offset_of(axes, begin + element / row);
            if (!single) at += element % row;
            ASSERT_EQ(to[i], from[at * bytes + static_cast<int64_t>(i) % bytes])
                << "byte " << i << " of rows of " << row << " elements of " << bytes << " bytes from row " << begin;
            auto again = offset_of(axes, (begin + element / row) % period) + (single ? 0 : element % row);
            ASSERT_EQ(at, again) << "period " << period;
        }
        for (auto i = written + kBehind; i < to.size(); ++i) ASSERT_EQ(to[i], 0xAB) << i - written << " bytes behind";
    }
}

TEST(Spread, RowsOfEveryLengthAndElement) {
    for (auto isa : {Isa::Scalar, Isa::Avx2, Isa::Avx512}) {
        if (isa > cpu_features().isa) continue;
        for (int32_t bytes : {1, 2, 4, 8})
            for (int64_t row = 1; row < 70; ++row)
                for (bool single : {false, true}) {
                    auto width = single ? 1 : row;
                    check({{3, 5}, {5 * width, width}}, row, bytes, single, isa);
                    check({{4, 3, 2}, {3 * width, width, 0}}, row, bytes, single, isa);
                    check({{3, 2, 4}, {0, 0, width}}, row, bytes, single, isa);
                    check({{2, 3, 4}, {4 * width, 0, width}}, row, bytes, single, isa);
                    check({{2, 67}, {67 * width, width}}, row, bytes, single, isa);
                    check({{2, 67}, {width, 0}}, row, bytes, single, isa);
                    if (HasFatalFailure()) return;
                }
    }
}

TEST(Spread, PeriodIsThatOfTheInnermostAxes) {
    auto period = [](Axes const& axes) {
        LoopNest nest;
        nest.outer = axes.sizes, nest.row = 8;
        return Spread(nest, {Access::Row, false, 4, axes.strides}, Isa::Scalar).period();
    };
    EXPECT_EQ(period({{6, 5}, {0, 0}}), 1);
    EXPECT_EQ(period({{6, 5}, {0, 8}}), 5);
    EXPECT_EQ(period({{6, 5}, {8, 0}}), 30);
    EXPECT_EQ(period({{2, 3, 5}, {0, 8, 0}}), 15);
}

}  // namespace
}  // namespace refactor::kernel::elementwise
