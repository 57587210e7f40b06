#include "movement/counted_tuples.h"

#include <gtest/gtest.h>

namespace refactor::kernel::movement {
namespace {

std::optional<CountedTuples> count(std::vector<int64_t> const& at, int64_t depth, size_t most = 4) {
    return CountedTuples::of(at.data(), DataType::I64, static_cast<int64_t>(at.size()) / depth, depth, most);
}

TEST(CountedTuples, LevelsAreFoundTheSlowestFirst) {
    auto found = count({1, 4, 1, 5, 1, 6, 3, 4, 3, 5, 3, 6}, 2);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->first, (Dims{1, 4}));
    ASSERT_EQ(found->levels.size(), 2u);
    EXPECT_EQ(found->levels[0].count, 2);
    EXPECT_EQ(found->levels[0].step, (Dims{2, 0}));
    EXPECT_EQ(found->levels[1].count, 3);
    EXPECT_EQ(found->levels[1].step, (Dims{0, 1}));
    EXPECT_EQ(found->last(), (Dims{3, 6}));
}

TEST(CountedTuples, WindowsThatOverlapCountAlongOneAxis) {
    auto found = count({0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7}, 1);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->levels.size(), 2u);
    EXPECT_EQ(found->levels[0].count, 3);
    EXPECT_EQ(found->levels[0].step, Dims{2});
    EXPECT_EQ(found->levels[1].count, 4);
    EXPECT_EQ(found->last(), Dims{7});
}

TEST(CountedTuples, OneTupleHasNoLevels) {
    int32_t const at[] = {-3, 2};
    auto found = CountedTuples::of(at, DataType::I32, 1, 2, 2);
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->levels.empty());
    EXPECT_EQ(found->last(), (Dims{-3, 2}));
}

TEST(CountedTuples, OthersDoNotCount) {
    EXPECT_FALSE(count({0, 1, 2, 4}, 1));
    EXPECT_FALSE(count({0, 1, 5, 7}, 1));
    EXPECT_FALSE(count({0, 1, 4, 5, 8}, 1));
    EXPECT_FALSE(count({0, 1, 4, 5}, 1, 1));
    // Steps that overflow would come back into the range of an axis.
    EXPECT_FALSE(count({-5, INT64_MAX - 5, -7}, 1));
    EXPECT_FALSE(count({INT64_MAX, INT64_MIN}, 1));
}

}  // namespace
}  // namespace refactor::kernel::movement
