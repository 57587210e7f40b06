#include "frontend/shape_rules.h"

#include "random_test.h"

#include <random>

#include <gtest/gtest.h>

namespace refactor::frontend {
namespace {

class ShapeRules : public testing::Test {
protected:
    SymbolTable symbols;
    DimExpr n = DimExpr::symbol(symbols.intern("N")), s = DimExpr::symbol(symbols.intern("S"));

    /// The value of `x` for N = `a`, S = `b`.
    int64_t at(DimExpr const& x, int64_t a, int64_t b) const {
        int64_t values[]{a, b};
        return x.evaluate(values).value_or(INT64_MIN);
    }
};

TEST_F(ShapeRules, BroadcastFollowsNumpy) {
    auto shape = broadcast_shapes({{n, 1, 3}, {s, 3}, {}}, symbols);
    ASSERT_TRUE(shape.ok());
    EXPECT_EQ(*shape, (Shape{n, s, 3}));
    EXPECT_FALSE(broadcast_shapes({{2, 3}, {4, 3}}, symbols).ok());
}

TEST_F(ShapeRules, BroadcastKeepsASizeThatIsCut) {
    auto shape = broadcast_shapes({{s}, {min(s, 512)}}, symbols);
    ASSERT_TRUE(shape.ok());
    EXPECT_EQ((*shape)[0], s);
}

TEST_F(ShapeRules, AxesAreChecked) {
    EXPECT_EQ(*normalize_axis(-1, 3), 2u);
    EXPECT_FALSE(normalize_axis(3, 3).ok());
    EXPECT_FALSE(normalize_axis(INT64_MIN, 3).ok());
    EXPECT_FALSE(normalize_axes({0, -3}, 3).ok());
}

TEST_F(ShapeRules, ReshapeDividesSymbols) {
    auto shape = reshape_rule({n, s, 768}, {0, 0, 12, -1}, false, symbols);
    ASSERT_TRUE(shape.ok());
    EXPECT_EQ(*shape, (Shape{n, s, 12, 64}));
    auto merged = reshape_rule({n, 12, s, 64}, {-1, s, 64}, false, symbols);
    ASSERT_TRUE(merged.ok());
    EXPECT_EQ((*merged)[0], n * 12);
}

TEST_F(ShapeRules, ReshapeRefusesWhatCannotFit) {
    EXPECT_FALSE(reshape_rule({2, 6}, {-1, -1}, false, symbols).ok());
    EXPECT_FALSE(reshape_rule({2, 6}, {5, 5}, false, symbols).ok());
    EXPECT_FALSE(reshape_rule({2, 6}, {5, -1}, false, symbols).ok());
    EXPECT_FALSE(reshape_rule({2, 6}, {-2, 6}, false, symbols).ok());
    EXPECT_FALSE(reshape_rule({2, 6}, {2, 6, 0}, false, symbols).ok());
    EXPECT_FALSE(reshape_rule({2, 6}, {0, -1}, true, symbols).ok());
}

TEST_F(ShapeRules, SliceToTheEndKeepsTheSize) {
    auto range = slice_rule(n, 0, INT64_MAX, 1);
    ASSERT_TRUE(range.ok());
    EXPECT_EQ(range->size, n);
    EXPECT_EQ(range->start, DimExpr(0));
    EXPECT_FALSE(slice_rule(n, 0, 1, 0).ok());
}

/// Start and length of a Python slice.
std::pair<int64_t, int64_t> python_slice(int64_t size, int64_t start, int64_t end, int64_t step) {
    auto bound = [&](int64_t b) {
        if (b < 0) b += size;
        return step > 0 ? std::clamp<int64_t>(b, 0, size) : std::clamp<int64_t>(b, -1, size - 1);
    };
    auto first = bound(start), last = bound(end);
    auto span = step > 0 ? last - first : first - last, stride = std::abs(step);
    return {first, span <= 0 ? 0 : (span + stride - 1) / stride};
}

TEST_F(ShapeRules, SliceAgreesWithPythonForEverySize) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::uniform_int_distribution<int64_t> bound(-9, 9), size(0, 7);
    for (int i = 0; i < 2000; ++i) {
        auto start = bound(random), end = bound(random), step = bound(random), length = size(random);
        if (step == 0) continue;
        auto expected = python_slice(length, start, end, step);
        for (auto const& dim : {n, DimExpr(length)}) {
            auto range = slice_rule(dim, start, end, step);
            ASSERT_TRUE(range.ok());
            auto where = concat("seed ", seed, ": x[", start, ":", end, ":", step, "] of ", length);
            EXPECT_EQ(at(range->size, length, 0), expected.second) << where;
            if (expected.second) {
                EXPECT_EQ(at(range->start, length, 0), expected.first) << where;
            }
        }
    }
}

TEST_F(ShapeRules, SliceWithSymbolicBoundsAgreesWithPython) {
    auto m = s;
    std::vector<DimExpr> all{0,
                             2,
                             -2,
                             n,
                             n * -1,
                             n - 1,
                             1 - n,
                             m,
                             m * -1,
                             m - 1,
                             1 - m,
                             mod(m, 3),
                             mod(m, -3),
                             mod(m * -1, 3) * -1,
                             m * 2,
                             m * -1 - 1,
                             min(n, m),
                             n - m,
                             max(n, 3),
                             m - n,
                             min(n, m) * -1,
                             n - 3,
                             2 - m,
                             m - n - 1,
                             mod(n, 4) - 2,
                             INT64_MAX,
                             INT64_MIN};
    for (size_t a = 0; a < all.size(); ++a)
        for (size_t b = 0; b < all.size(); ++b)
            for (int64_t step : {1, 2, -1, -3}) {
                auto range = slice_rule(n, all[a], all[b], step);
                ASSERT_TRUE(range.ok());
                for (int64_t size = 0; size < 7; ++size)
                    for (int64_t other_size = 0; other_size < 7; ++other_size) {
                        auto where =
                            concat("bounds ", a, " and ", b, ", step ", step, ", N ", size, ", S ", other_size);
                        bool holds = true;
                        for (auto const& condition : range->conditions)
                            holds &= at(condition.actual, size, other_size) == at(condition.expected, size, other_size);
                        if (!holds) {
                            EXPECT_TRUE(!size || !other_size) << where;
                            continue;
                        }
                        auto start = at(all[a], size, other_size), end = at(all[b], size, other_size);
                        auto expected = python_slice(size, start, end, step);
                        EXPECT_EQ(at(range->size, size, other_size), expected.second) << where;
                        if (expected.second) {
                            EXPECT_EQ(at(range->start, size, other_size), expected.first) << where;
                        }
                    }
            }
}

TEST_F(ShapeRules, WindowsCountPositions) {
    auto size = window_rule(n, {3, 2, 1, 1, 1}, false, symbols);
    ASSERT_TRUE(size.ok());
    EXPECT_EQ(at(*size, 224, 0), 112);
    auto up = window_rule(7, {2, 2, 1, 0, 0}, true, symbols);
    EXPECT_EQ(*up, DimExpr(4));
    // A window that would start in the right pad is dropped.
    EXPECT_EQ(*window_rule(1, {1, 2, 1, 0, 1}, true, symbols), DimExpr(1));
    EXPECT_FALSE(window_rule(4, {9, 1, 1, 0, 0}, false, symbols).ok());
    // Rounded up, the first window may be larger than the padded input, by less than the stride.
    EXPECT_EQ(*window_rule(7, {10, 4, 1, 0, 0}, true, symbols), DimExpr(1));
    EXPECT_FALSE(window_rule(7, {10, 4, 1, 0, 0}, false, symbols).ok());
    EXPECT_FALSE(window_rule(7, {11, 4, 1, 0, 0}, true, symbols).ok());
    auto large = window_rule(n, {1280, 1280, 1, 0, 0}, true, symbols);
    ASSERT_TRUE(large.ok());
    EXPECT_EQ(at(*large, 7, 0), 1);
    EXPECT_EQ(at(*large, 1281, 0), 2);
}

TEST_F(ShapeRules, SamePadsReachTheCeiling) {
    for (int64_t size = 1; size < 20; ++size)
        for (int64_t stride = 1; stride < 4; ++stride)
            for (bool upper : {false, true}) {
                WindowAxis axis{3, stride, 1, 0, 0};
                same_pads(n, axis, upper);
                auto positions = window_rule(n, axis, false, symbols);
                ASSERT_TRUE(positions.ok());
                EXPECT_EQ(at(*positions, size, 0), (size + stride - 1) / stride) << size << " stride " << stride;
                auto begin = at(axis.pad_begin, size, 0), end = at(axis.pad_end, size, 0);
                EXPECT_TRUE(upper ? end == begin || end == begin + 1 : begin == end || begin == end + 1);
            }
}

}  // namespace
}  // namespace refactor::frontend
