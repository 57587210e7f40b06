#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "kernel/procedures/select.h"
#include "nms/box_strips.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace refactor::kernel {
namespace {

using runtime::Value;

Value numbers(Dims dims, std::vector<float> const& elements) {
    Value value;
    std::copy(elements.begin(), elements.end(), static_cast<float*>(value.resize(DataType::F32, dims)));
    return value;
}

Value integer(int64_t number) {
    Value value;
    *static_cast<int64_t*>(value.resize(DataType::I64, {1})) = number;
    return value;
}

/// The share of the union that two boxes [y0, x0, y1, x1] have in common is more than `limit`.
bool overlap(float const* a, float const* b, float limit) {
    auto area = [](float const* p) { return (p[2] - p[0]) * (p[3] - p[1]); };
    auto height = std::max(std::min(a[2], b[2]) - std::max(a[0], b[0]), 0.f);
    auto width = std::max(std::min(a[3], b[3]) - std::max(a[1], b[1]), 0.f);
    auto both = area(a) + area(b) - height * width;
    return both > 0 && height * width > limit * both;
}

std::vector<int64_t> greedy(std::vector<float> const& boxes, std::vector<float> const& scores, int64_t most,
                            float limit) {
    std::vector<int64_t> order(scores.size()), chosen;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
    for (auto i : order)
        if (static_cast<int64_t>(chosen.size()) < most && std::none_of(chosen.begin(), chosen.end(), [&](auto k) {
                return overlap(boxes.data() + i * 4, boxes.data() + k * 4, limit);
            }))
            chosen.push_back(i);
    return chosen;
}

class NonMaxSuppressionTest : public testing::Test {
protected:
    static constexpr uint32_t kSeed = 20;
    std::mt19937 random_{kSeed};

    /// Corners on a grid of integers, so that areas are exact and overlaps are often equal.
    std::vector<float> boxes(int64_t count, int extent) {
        std::vector<float> result;
        for (int64_t i = 0; i < count; ++i) {
            auto y = static_cast<float>(random_() % 60) - 20, x = static_cast<float>(random_() % 60) - 20;
            auto extent_of = [&] { return static_cast<float>(random_() % static_cast<uint32_t>(extent)); };
            result.insert(result.end(), {y, x, y + extent_of(), x + extent_of()});
        }
        return result;
    }
    std::vector<float> scores(int64_t count) {
        std::vector<float> result;
        for (int64_t i = 0; i < count; ++i) {
            auto score = (static_cast<float>(random_() % 201) - 100) / 100;
            result.push_back(score == 0 && i % 2 ? -0.f : score);
        }
        return result;
    }
};

TEST_F(NonMaxSuppressionTest, ChoosesWhatTheDefinitionChooses) {
    auto pool = std::make_shared<ThreadPool>(2);
    std::string const allocator = "default";
    struct Case {
        int64_t count, most;
        int extent;
        float limit;
    };
    // Of the second most are covered, so that more than the first portion of the order is needed.
    for (auto const& [count, most, extent, limit] :
         {Case{1, 5, 9, 0.5f}, Case{700, 40, 40, 0.f}, Case{1500, 1500, 12, 0.5f}, Case{33, 33, 30, 0.25f}}) {
        SCOPED_TRACE(count);
        auto corners = boxes(count, extent);
        auto levels = scores(count);
        std::vector<Value> inputs{numbers({1, count, 4}, corners), numbers({1, 1, count}, levels), integer(most),
                                  numbers({1}, {limit})};
        std::vector<Value const*> operands;
        for (auto const& input : inputs) operands.push_back(&input);
        std::vector<Value> results(1);
        make_non_max_suppression(false, nullptr)->call(operands, results, {pool, {}, nullptr, allocator});
        std::vector<int64_t> actual;
        for (int64_t i = 0; i < results[0].dims[0]; ++i) actual.push_back(results[0].data<int64_t>()[3 * i + 2]);
        EXPECT_EQ(actual, greedy(corners, levels, most, limit));
    }
}

Candidate candidate(float const* box, float limit) {
    return {box[0], box[1], box[2], box[3], (box[2] - box[0]) * (box[3] - box[1]), limit};
}

BoxColumns columns_of(std::vector<float> const& boxes) {
    BoxColumns columns(boxes.size() / 4);
    for (size_t i = 0; i < boxes.size() / 4; ++i) {
        auto box = candidate(boxes.data() + i * 4, 0);
        columns.y0[i] = box.y0, columns.x0[i] = box.x0, columns.y1[i] = box.y1, columns.x1[i] = box.x1;
        columns.area[i] = box.area;
    }
    return columns;
}

bool covered_by_one(BoxColumns const& boxes, size_t count, Candidate const& c) {
    float const box[]{c.y0, c.x0, c.y1, c.x1};
    for (size_t k = 0; k < count; ++k) {
        float const other[]{boxes.y0[k], boxes.x0[k], boxes.y1[k], boxes.x1[k]};
        if (overlap(box, other, c.limit)) return true;
    }
    return false;
}

TEST_F(NonMaxSuppressionTest, StripsHideNoBoxThatCovers) {
    constexpr size_t kCount = 900;
    for (bool across : {false, true})
        for (float limit : {0.f, 0.3f}) {
            auto corners = boxes(kCount, 25);
            // Classes are moved apart along one axis, and by less along the other.
            for (size_t i = 0; i < kCount; ++i)
                for (size_t k = 0; k < 4; ++k)
                    corners[i * 4 + k] += static_cast<float>(i % 7) * ((k % 2 == 1) == across ? 70.f : 10.f);
            BoxStrips strips(columns_of(corners), kCount, kCount, covered_by_one);
            EXPECT_GT(strips.strips(), 10u);
            std::vector<float> added;
            for (size_t i = 0; i < kCount; ++i) {
                auto box = candidate(corners.data() + i * 4, limit);
                ASSERT_EQ(strips.cover(box), covered_by_one(columns_of(added), added.size() / 4, box)) << i;
                if (i % 3) continue;
                strips.add(box);
                added.insert(added.end(), corners.begin() + static_cast<long>(i * 4),
                             corners.begin() + static_cast<long>(i * 4 + 4));
            }
        }
}

TEST_F(NonMaxSuppressionTest, BoxesWithoutPlaceShareOneStrip) {
    for (float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38f}) {
        auto corners = boxes(200, 25);
        corners[4 * 17] = -odd, corners[4 * 17 + 1] = -odd, corners[4 * 17 + 2] = odd, corners[4 * 17 + 3] = odd;
        EXPECT_EQ(BoxStrips(columns_of(corners), 200, 200, covered_by_one).strips(), 1u) << odd;
    }
    EXPECT_EQ(BoxStrips(columns_of({}), 0, 200, covered_by_one).strips(), 1u);
    EXPECT_EQ(BoxStrips(columns_of(std::vector<float>(800, 1.f)), 200, 200, covered_by_one).strips(), 1u);
}

#if RG_X86
TEST_F(NonMaxSuppressionTest, VectorsAgreeWithTheDefinition) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    for (int64_t count : {0, 1, 7, 8, 9, 30}) {
        auto corners = boxes(count + 1, 30);
        auto columns = columns_of({corners.begin(), corners.begin() + count * 4});
        auto const* last = corners.data() + count * 4;
        for (float limit : {0.f, 0.125f, 0.5f, 1.f}) {
            bool expected = false;
            for (int64_t i = 0; i < count; ++i) expected |= overlap(last, corners.data() + i * 4, limit);
            EXPECT_EQ(is_covered_avx2(columns, static_cast<size_t>(count), candidate(last, limit)), expected)
                << count << ", " << limit;
        }
    }
}
#endif

}  // namespace
}  // namespace refactor::kernel
