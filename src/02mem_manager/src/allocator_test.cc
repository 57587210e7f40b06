#include "mem_manager/allocator.h"

#include "common/error.h"
#include "mem_manager/device.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace refactor::mem_manager {

namespace {

struct AllocatorTest : testing::TestWithParam<char const*> {
    std::unique_ptr<Allocator> allocator = make_allocator(GetParam(), cpu_device());
    void* get(size_t bytes) { return allocator->allocate(bytes); }
};

TEST_P(AllocatorTest, RandomBlocksAreAlignedDisjointAndKeepTheirContent) {
    struct Block {
        size_t bytes;
        int fill;
    };
    for (uint32_t seed = 0; seed < 10; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        std::map<std::byte*, Block> live;
        size_t live_bytes = 0, most = 0;
        for (int step = 0; step < 500; ++step) {
            if (live.empty() || random() % 5 < 3) {
                size_t bytes = random() % 40 ? 1 + random() % 5000 : random() % 3'000'000;
                auto* address = static_cast<std::byte*>(get(bytes));
                if (!bytes) {
                    EXPECT_EQ(address, nullptr);
                    continue;
                }
                ASSERT_EQ(reinterpret_cast<uintptr_t>(address) % 64, 0u);
                auto next = live.lower_bound(address);
                ASSERT_TRUE(next == live.end() || address + bytes <= next->first);
                ASSERT_TRUE(next == live.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= address);
                std::memset(address, step & 0xff, bytes);
                live.emplace(address, Block{bytes, step & 0xff});
                most = std::max(most, live_bytes += bytes);
            } else {
                auto block = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
                auto [bytes, fill] = block->second;
                for (size_t i = 0; i < bytes; i += 61) ASSERT_EQ(static_cast<int>(block->first[i]), fill);
                ASSERT_EQ(static_cast<int>(block->first[bytes - 1]), fill);
                allocator->free(block->first);
                live_bytes -= bytes;
                live.erase(block);
            }
            auto stats = allocator->stats();
            ASSERT_GE(stats.live_bytes, live_bytes);
            ASSERT_GE(stats.reserved_bytes, stats.live_bytes);
            if (step % 100 == 99) allocator->trim();
        }
        EXPECT_GE(allocator->stats().peak_bytes, most);
        for (auto const& [address, block] : live) allocator->free(address);
        EXPECT_EQ(allocator->stats().live_bytes, 0u);
        allocator->trim();
        EXPECT_EQ(allocator->stats().reserved_bytes, 0u);
    }
}

TEST_P(AllocatorTest, FreedMemoryStaysValidUntilTrim) {
    auto* address = static_cast<char*>(get(10'000));
    std::memset(address, 7, 10'000);
    allocator->free(address);
    EXPECT_EQ(address[0] + address[9'999], 14);
    EXPECT_GT(allocator->stats().reserved_bytes, 0u);
    allocator->trim();
    EXPECT_EQ(allocator->stats().reserved_bytes, 0u);
    std::memset(get(10'000), 1, 10'000);
}

TEST_P(AllocatorTest, TooMuchIsOutOfMemoryAndTheAllocatorStaysUsable) {
    EXPECT_THROW(get(SIZE_MAX), OutOfMemory);
    EXPECT_THROW(get(SIZE_MAX / 2), OutOfMemory);
    auto* address = get(100);
    ASSERT_NE(address, nullptr);
    allocator->free(address);
    EXPECT_EQ(allocator->stats().live_bytes, 0u);
}

TEST_P(AllocatorTest, FreeingWhatIsNotAllocatedIsAnError) {
    allocator->free(nullptr);
    int local = 0;
    EXPECT_THROW(allocator->free(&local), InternalError);
    auto* address = get(64);
    allocator->free(address);
    EXPECT_THROW(allocator->free(address), InternalError);
}

INSTANTIATE_TEST_SUITE_P(Names, AllocatorTest, testing::Values("default", "plain", "mru", "bestfit", "compact"),
                         [](auto const& test) { return std::string(test.param); });

TEST(Allocator, PlainNeverShares) {
    auto plain = make_allocator("plain", cpu_device());
    auto* first = plain->allocate(64);
    plain->free(first);
    EXPECT_NE(plain->allocate(64), first);
}

TEST(Allocator, MostRecentlyUsedTakesTheLastFreedThatFits) {
    auto mru = make_allocator("mru", cpu_device());
    void* blocks[] = {mru->allocate(1000), mru->allocate(1000), mru->allocate(128)};
    for (auto* block : blocks) mru->free(block);
    EXPECT_EQ(mru->allocate(900), blocks[1]);
    EXPECT_EQ(mru->allocate(100), blocks[2]);
}

TEST(Allocator, BestFitTakesTheTightestGapAndMergesNeighbours) {
    auto bestfit = make_allocator("bestfit", cpu_device());
    bestfit->free(bestfit->allocate(64 * 100));
    std::byte* blocks[5];
    for (auto& block : blocks) block = static_cast<std::byte*>(bestfit->allocate(64 * 10));
    bestfit->free(blocks[1]), bestfit->free(blocks[3]), bestfit->free(blocks[4]);
    EXPECT_EQ(bestfit->allocate(64 * 10), blocks[1]);
    EXPECT_EQ(bestfit->allocate(64 * 65), blocks[3]);
    EXPECT_EQ(bestfit->stats().reserved_bytes, 6400u);
}

TEST(Allocator, CompactFillsFromTheBottomAndReturnsTheTop) {
    auto compact = make_allocator("compact", cpu_device());
    auto* low = static_cast<std::byte*>(compact->allocate(64));
    auto* high = static_cast<std::byte*>(compact->allocate(size_t(32) << 20));
    EXPECT_EQ(high, low + 64);
    EXPECT_GT(compact->stats().reserved_bytes, size_t(32) << 20);
    compact->free(high);
    compact->trim();
    EXPECT_EQ(compact->stats().reserved_bytes, size_t(2) << 20);
    compact->free(low);
    EXPECT_EQ(compact->allocate(1 << 20), low);
}

TEST(Allocator, UnknownNamesListTheValidOnes) {
    try {
        make_allocator("fast", cpu_device());
        FAIL();
    } catch (InvalidInput const& error) {
        for (auto const* name : {"fast", "default", "plain", "mru", "bestfit", "compact"})
            EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << name;
    }
}

}  // namespace

}  // namespace refactor::mem_manager
