#include "common/cpu_features.h"
#include "common/thread_pool.h"
#include "kernel/procedures/select.h"
#include "nms/box_columns.h"

#include <algorithm>
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

#if RG_X86
TEST_F(NonMaxSuppressionTest, VectorsAgreeWithTheDefinition) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    for (int64_t count : {0, 1, 7, 8, 9, 30}) {
        auto corners = boxes(count + 1, 30);
        BoxColumns columns(static_cast<size_t>(count));
        auto area = [&](int64_t i) {
            auto const* p = corners.data() + i * 4;
            return (p[2] - p[0]) * (p[3] - p[1]);
        };
        for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
            columns.y0[i] = corners[i * 4], columns.x0[i] = corners[i * 4 + 1], columns.y1[i] = corners[i * 4 + 2];
            columns.x1[i] = corners[i * 4 + 3], columns.area[i] = area(static_cast<int64_t>(i));
        }
        auto const* last = corners.data() + count * 4;
        for (float limit : {0.f, 0.125f, 0.5f, 1.f}) {
            bool expected = false;
            for (int64_t i = 0; i < count; ++i) expected |= overlap(last, corners.data() + i * 4, limit);
            Candidate box{last[0], last[1], last[2], last[3], area(count), limit};
            EXPECT_EQ(is_covered_avx2(columns, static_cast<size_t>(count), box), expected) << count << ", " << limit;
        }
    }
}
#endif

}  // namespace
}  // namespace refactor::kernel
