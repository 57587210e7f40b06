#include "mem_manager/memory_planner.h"

#include "common/error.h"
#include "lifetimes_test.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace refactor::mem_manager {

namespace {

uint32_t root_of(std::vector<Lifetime> const& lives, uint32_t block) {
    while (lives[block].alias != kNoAlias) block = lives[block].alias;
    return block;
}

/// The contract, pair by pair: blocks in use at the same step are disjoint, or names of one block, or one took over the
/// other in the step in which it ends.
void expect_legal(std::vector<Lifetime> const& lives, MemoryPlan const& plan) {
    ASSERT_EQ(plan.offsets.size(), lives.size());
    std::vector<uint32_t> root(lives.size()), first(lives.size(), UINT32_MAX), last(lives.size());
    std::vector<size_t> bytes(lives.size());
    for (uint32_t i = 0; i < lives.size(); ++i) {
        root[i] = root_of(lives, i);
        first[root[i]] = std::min(first[root[i]], lives[i].first_step);
        last[root[i]] = std::max(last[root[i]], lives[i].last_step);
        bytes[root[i]] = std::max(bytes[root[i]], lives[i].bytes);
        EXPECT_EQ(plan.offsets[i], plan.offsets[root[i]]) << "alias " << i;
        EXPECT_EQ(plan.offsets[i] % 64, 0u);
        EXPECT_LE(plan.offsets[i] + lives[i].bytes, plan.peak_bytes);
    }
    EXPECT_GE(plan.peak_bytes, plan.lower_bound);
    std::vector<bool> taken(lives.size());
    for (uint32_t a = 0; a < lives.size(); ++a)
        for (uint32_t b = 0; b < a; ++b) {
            if (root[a] != a || root[b] != b || !bytes[a] || !bytes[b]) continue;
            if (last[a] < first[b] || last[b] < first[a]) continue;
            auto end_a = plan.offsets[a] + bytes[a], end_b = plan.offsets[b] + bytes[b];
            if (end_a <= plan.offsets[b] || end_b <= plan.offsets[a]) continue;
            bool allowed = lives[a].reuse != kNoReuse && root[lives[a].reuse] == b && last[b] == lives[a].first_step &&
                           first[a] == lives[a].first_step && first[b] < first[a];
            EXPECT_TRUE(allowed) << "blocks " << b << " and " << a << " overlap";
            EXPECT_FALSE(taken[b]) << "block " << b << " is taken over twice";
            taken[b] = true;
        }
}

TEST(MemoryPlanner, ExampleOfTheHeader) {
    std::vector<Lifetime> lives{{64, 0, 1}, {64, 1, 2}};
    auto plan = plan_memory(lives);
    EXPECT_EQ(plan.offsets, (std::vector<size_t>{0, 64}));
    EXPECT_EQ(plan.peak_bytes, 128u);
    EXPECT_EQ(plan.lower_bound, 128u);
    lives[1].reuse = 0;
    EXPECT_EQ(plan_memory(lives).peak_bytes, 64u);
    lives[1].reuse = kNoReuse, lives[1].alias = 0;
    EXPECT_EQ(plan_memory(lives).offsets, (std::vector<size_t>{0, 0}));
    EXPECT_EQ(plan_memory(lives).peak_bytes, 64u);
}

TEST(MemoryPlanner, NothingAndEmptyBlocks) {
    auto plan = plan_memory({});
    EXPECT_EQ(plan.peak_bytes, 0u);
    std::vector<Lifetime> lives{{0, 0, 5}, {1, 1, 1}, {0, 2, 2}};
    plan = plan_memory(lives);
    EXPECT_EQ(plan.peak_bytes, 64u);
    expect_legal(lives, plan);
}

TEST(MemoryPlanner, AnAliasExtendsItsBlock) {
    // x → reshape → y, and y is read in step 4: a block that starts in step 3 must not lie on x.
    std::vector<Lifetime> lives{{100, 0, 1}, {100, 1, 4, kNoReuse, 0}, {100, 3, 5}, {300, 2, 2, kNoReuse, 1}};
    auto plan = plan_memory(lives);
    expect_legal(lives, plan);
    EXPECT_EQ(plan.offsets[1], plan.offsets[0]);
    EXPECT_EQ(plan.offsets[3], plan.offsets[0]);
    EXPECT_EQ(plan.peak_bytes, 320u + 128u);
    // A name of a later block: both parts of a concatenation would be such names.
    std::vector<Lifetime> early{{64, 0, 1, kNoReuse, 2}, {64, 0, 3}, {128, 1, 2}};
    plan = plan_memory(early);
    expect_legal(early, plan);
    EXPECT_EQ(plan.peak_bytes, 192u);
}

TEST(MemoryPlanner, ABlockIsTakenOverOnceAndOnlyWhereItEnds) {
    std::vector<Lifetime> lives{{64, 0, 2}, {64, 2, 3, 0}, {64, 2, 3, 0}, {64, 3, 4, 0}};
    auto plan = plan_memory(lives);
    expect_legal(lives, plan);
    EXPECT_EQ(plan.offsets[1], plan.offsets[0]);
    EXPECT_NE(plan.offsets[2], plan.offsets[0]);
    EXPECT_NE(plan.offsets[3], plan.offsets[1]);
    // A name of the input lives on: the memory is not free.
    std::vector<Lifetime> named{{64, 0, 1}, {64, 0, 5, kNoReuse, 0}, {64, 1, 2, 0}};
    plan = plan_memory(named);
    expect_legal(named, plan);
    EXPECT_NE(plan.offsets[2], plan.offsets[0]);
    // The first taker ends in its first step.
    std::vector<Lifetime> brief{{64, 0, 1}, {64, 1, 1, 0}, {64, 1, 1, 0}};
    expect_legal(brief, plan_memory(brief));
}

TEST(MemoryPlanner, BadLifetimesAreErrors) {
    EXPECT_THROW(plan_memory(std::vector<Lifetime>{{64, 2, 1}}), InternalError);
    EXPECT_THROW(plan_memory(std::vector<Lifetime>{{64, 0, 1, 7}}), InternalError);
    EXPECT_THROW(plan_memory(std::vector<Lifetime>{{64, 0, 1, kNoReuse, 7}}), InternalError);
    EXPECT_THROW(plan_memory(std::vector<Lifetime>{{64, 0, 1, kNoReuse, 0}}), InternalError);
    EXPECT_THROW(plan_memory(std::vector<Lifetime>{{64, 0, 1, kNoReuse, 1}, {64, 0, 1, kNoReuse, 0}}), InternalError);
}

TEST(MemoryPlanner, RandomLifetimesNeverOverlap) {
    for (uint32_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        // The longest ones make every pair overlap, which is the dense way of the packing.
        auto lives = test::random_lifetimes(random, 1 + seed % 150, 60, 1 + seed % 60);
        auto plan = plan_memory(lives);
        expect_legal(lives, plan);
        EXPECT_EQ(plan.offsets, plan_memory(lives).offsets);
    }
    std::mt19937 random(1);
    auto dense = test::random_lifetimes(random, 600, 20, 20);
    expect_legal(dense, plan_memory(dense));
}

TEST(MemoryPlanner, LowerBoundIsTheMostLiveBytes) {
    for (uint32_t seed = 0; seed < 50; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        auto lives = test::random_lifetimes(random, 40, 30, 10);
        for (auto& life : lives) life.reuse = kNoReuse, life.alias = kNoAlias;
        size_t most = 0;
        for (uint32_t step = 0; step < 30; ++step) {
            size_t sum = 0;
            for (auto const& life : lives)
                if (life.first_step <= step && step <= life.last_step) sum += (life.bytes + 63) / 64 * 64;
            most = std::max(most, sum);
        }
        EXPECT_EQ(plan_memory(lives).lower_bound, most);
    }
}

TEST(MemoryPlanner, NetworksComeCloseToTheirBound) {
    std::mt19937 random(3);
    struct Case {
        char const* name;
        std::vector<Lifetime> lives;
        double most;  ///< peak over bound
    };
    // Of a plain chain only two blocks are in use at once, one at each end of the arena; the others are stacks of
    // skips.
    Case cases[] = {{"residual", test::residual(16), 1.0},
                    {"unet", test::unet(5, 2), 1.0},
                    {"transformer", test::transformer(12, 128, false), 1.0},
                    {"transformer with cache", test::transformer(12, 128, true), 1.0},
                    {"chain", test::chain(200, random), 1.0}};
    for (auto const& entry : cases) {
        auto plan = plan_memory(entry.lives);
        expect_legal(entry.lives, plan);
        EXPECT_LE(static_cast<double>(plan.peak_bytes), entry.most * static_cast<double>(plan.lower_bound))
            << entry.name;
    }
}

}  // namespace

}  // namespace refactor::mem_manager
