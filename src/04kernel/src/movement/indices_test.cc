#include "common/error.h"
#include "kernel/ops/movement.h"
#include "movement/movement_test.h"

namespace refactor::kernel {
namespace {

using namespace testing;

TEST(Gather, EqualsReference) {
    for_seeds(40, [](auto& random, DataType type) {
        auto rank = pick(random, 1, 4), axis = pick(random, 0, rank - 1);
        auto x = random_dims(random, rank, 9);
        auto index_dims = random_dims(random, pick(random, 0, 2), 6);
        auto index_type = pick(random, 0, 1) ? DataType::I32 : DataType::I64;
        Dims y(x.begin(), x.begin() + axis);
        for (auto size : index_dims) y.push_back(size);
        for (auto i = axis + 1; i < rank; ++i) y.push_back(x[i]);
        expect_equal(GatherInfo{axis},
                     {Tensor(type, x).fill(random), indices(index_type, index_dims, -x[axis], x[axis] - 1, random)},
                     {Tensor(type, y)});
        auto dims = x;
        dims[axis] = pick(random, 1, 9);
        expect_equal(GatherElementsInfo{axis},
                     {Tensor(type, x).fill(random), indices(index_type, dims, -x[axis], x[axis] - 1, random)},
                     {Tensor(type, dims)});
    });
}

TEST(Gather, ManyIndicesAndManyRows) {
    for_seeds(1, [](auto& random, DataType type) {
        auto check = [&](Dims const& x, int64_t axis, int64_t count) {
            auto y = x;
            y[axis] = count;
            for (auto index_type : {DataType::I32, DataType::I64})
                expect_equal(
                    GatherInfo{axis},
                    {Tensor(type, x).fill(random), indices(index_type, {count}, -x[axis], x[axis] - 1, random)},
                    {Tensor(type, y)});
        };
        check({70001}, 0, 90001);    // more than one block of offsets
        check({3, 50, 1}, 1, 2500);  // and that for several rows
        check({3001, 7}, 1, 5);      // several rows in one block
        check({3001, 7, 3}, 1, 1);
        check({5000, 40}, 0, 3000);
        Dims const dims{2, 2100, 3}, last{2, 3, 2100};
        expect_equal(GatherElementsInfo{1},
                     {Tensor(type, dims).fill(random), indices(DataType::I64, dims, -2100, 2099, random)},
                     {Tensor(type, dims)});
        expect_equal(GatherElementsInfo{2},
                     {Tensor(type, last).fill(random), indices(DataType::I32, last, -2100, 2099, random)},
                     {Tensor(type, last)});
        expect_equal(GatherNDInfo{1},
                     {Tensor(type, dims).fill(random), indices(DataType::I64, {2, 2500, 1}, -2100, 2099, random)},
                     {Tensor(type, {2, 2500, 3})});
    });
}

TEST(Gather, OutOfRangeNamesIndexAndSize) {
    Tensor x(DataType::F32, {5, 3}), y(DataType::F32, {2, 3});
    for (int64_t bad : {5, -6}) {
        std::vector<Tensor> inputs{x, Tensor(DataType::I64, {2}).set<int64_t>({1, bad})};
        try {
            run_all(GatherInfo{0}, inputs, {y});
            FAIL() << "expected InvalidInput";
        } catch (InvalidInput const& error) {
            EXPECT_NE(error.message().find(std::to_string(bad)), std::string::npos) << error.message();
            EXPECT_NE(error.message().find("size 5"), std::string::npos) << error.message();
        }
        std::vector<Tensor> nd{x, Tensor(DataType::I64, {2, 1}).set<int64_t>({1, bad}), y};
        std::vector<Tensor> first{nd[0], nd[1]};
        EXPECT_THROW(run_all(GatherNDInfo{0}, first, {y}), InvalidInput);
        EXPECT_THROW(run_all(ScatterInfo{-1}, nd, {x}), InvalidInput);
        std::vector<Tensor> elements{x, Tensor(DataType::I64, {1, 2}).set<int64_t>({0, bad}),
                                     Tensor(DataType::F32, {1, 2})};
        EXPECT_THROW(run_all(ScatterInfo{0}, elements, {x}), InvalidInput);
        std::vector<Tensor> gathered{elements[0], elements[1]};
        EXPECT_THROW(run_all(GatherElementsInfo{0}, gathered, {Tensor(DataType::F32, {1, 2})}), InvalidInput);
    }
}

TEST(GatherND, EqualsReference) {
    for_seeds(40, [](auto& random, DataType type) {
        auto rank = pick(random, 1, 4), batch = pick(random, 0, rank - 1), depth = pick(random, 1, rank - batch);
        auto x = random_dims(random, rank, 6);
        Dims index_dims(x.begin(), x.begin() + batch);
        index_dims.push_back(pick(random, 1, 5));
        Dims y = index_dims;
        index_dims.push_back(depth);
        for (auto i = batch + depth; i < rank; ++i) y.push_back(x[i]);
        auto least = *std::min_element(x.begin(), x.end());
        expect_equal(GatherNDInfo{batch},
                     {Tensor(type, x).fill(random), indices(DataType::I64, index_dims, -least, least - 1, random)},
                     {Tensor(type, y)});
    });
}

TEST(Scatter, RowsOfEqualAndOfMixedIndices) {
    std::vector<int64_t> const at{2, 2, 2, 0, 0, 0, 1, 3, 1, 2, 2, 2, -1, -1, -1};
    std::vector<float> data(12), updates(15);
    for (size_t i = 0; i < 12; ++i) data[i] = static_cast<float>(i);
    for (size_t i = 0; i < 15; ++i) updates[i] = static_cast<float>(100 * (i + 1));
    std::vector<Tensor> inputs{Tensor(DataType::F32, {4, 3}).set(data), Tensor(DataType::I64, {5, 3}).set(at),
                               Tensor(DataType::F32, {5, 3}).set(updates)};
    for (auto reduction : {ScatterReduction::None, ScatterReduction::Add}) {
        auto expected = data;
        for (size_t i = 0; i < 15; ++i) {
            auto& to = expected[static_cast<size_t>((at[i] + 4) % 4) * 3 + i % 3];
            to = updates[i] + (reduction == ScatterReduction::Add ? to : 0);
        }
        auto answers = run_all(ScatterInfo{0, reduction}, inputs, {Tensor(DataType::F32, {4, 3})});
        auto* y = answers[0].outputs[0].as<float>();
        EXPECT_EQ(std::vector<float>(y, y + 12), expected);
    }
}

TEST(Scatter, RunsAndSingleElements) {
    std::mt19937 random(7);
    Dims const dims{3, 5, 700};
    for (int64_t depth : {1, 2, 3})
        for (auto reduction : {ScatterReduction::None, ScatterReduction::Add})
            for (bool shuffled : {false, true}) {
                int64_t tuples = 1, row = 1;
                for (int64_t i = 0; i < 3; ++i) (i < depth ? tuples : row) *= dims[i];
                std::vector<int64_t> order(static_cast<size_t>(tuples)), at;
                for (int64_t t = 0; t < tuples; ++t) order[static_cast<size_t>(t)] = t;
                if (shuffled) std::shuffle(order.begin(), order.end(), random);
                for (auto tuple : order) {
                    std::vector<int64_t> numbers;
                    for (auto i = depth; i-- > 0; tuple /= dims[i]) numbers.insert(numbers.begin(), tuple % dims[i]);
                    at.insert(at.end(), numbers.begin(), numbers.end());
                }
                Tensor data(DataType::I32, dims), updates(DataType::I32, {tuples, row});
                data.fill(random), updates.fill(random);
                auto expected = data;
                for (int64_t t = 0; t < tuples; ++t)
                    for (int64_t i = 0; i < row; ++i) {
                        auto& to = expected.as<uint32_t>()[order[static_cast<size_t>(t)] * row + i];
                        auto update = updates.as<uint32_t>()[t * row + i];
                        to = reduction == ScatterReduction::Add ? to + update : update;
                    }
                std::vector<Tensor> inputs{data, Tensor(DataType::I64, {tuples, depth}).set(at), updates};
                for (auto& answer : run_all(ScatterInfo{-1, reduction}, inputs, {Tensor(DataType::I32, dims)}))
                    ASSERT_EQ(std::memcmp(answer.outputs[0].data(), expected.data(), expected.bytes()), 0)
                        << answer.id << ", depth " << depth;
            }
}

TEST(Scatter, RowsOfFloatsKeepNaN) {
    constexpr int64_t kRows = 4, kSize = 37;
    std::mt19937 random(9);
    std::vector<int64_t> const at{2, 0, 2, 3, -2, 0};
    Tensor data(DataType::F32, {kRows, kSize}), updates(DataType::F32, {6, kSize});
    data.fill(random), updates.fill(random);
    data.as<float>()[5] = updates.as<float>()[kSize + 7] = updates.as<float>()[2 * kSize + 36] = NAN;
    using enum ScatterReduction;
    for (auto reduction : {Add, Mul, Min, Max}) {
        auto expected = data;
        for (size_t t = 0; t < at.size(); ++t)
            for (int64_t i = 0; i < kSize; ++i) {
                auto& to = expected.as<float>()[(at[t] + kRows) % kRows * kSize + i];
                auto update = updates.as<float>()[static_cast<int64_t>(t) * kSize + i];
                bool is_nan = std::isnan(to) || std::isnan(update);
                to = reduction == Add   ? to + update
                     : reduction == Mul ? to * update
                     : is_nan           ? NAN
                     : reduction == Min ? std::min(to, update)
                                        : std::max(to, update);
            }
        std::vector<Tensor> inputs{data, Tensor(DataType::I64, {6, 1}).set(at), updates};
        for (auto& answer : run_all(ScatterInfo{-1, reduction}, inputs, {Tensor(DataType::F32, {kRows, kSize})}))
            for (int64_t i = 0; i < kRows * kSize; ++i) {
                auto actual = answer.outputs[0].as<float>()[i], e = expected.as<float>()[i];
                ASSERT_TRUE(actual == e || (std::isnan(actual) && std::isnan(e))) << answer.id << ", element " << i;
            }
    }
}

TEST(Scatter, AddsInOrderAndOverwrites) {
    std::vector<Tensor> inputs{Tensor(DataType::F32, {4}).set<float>({1, 2, 3, 4}),
                               Tensor(DataType::I64, {3}).set<int64_t>({1, -1, 1}),
                               Tensor(DataType::F32, {3}).set<float>({10, 20, 30})};
    auto run = [&](ScatterReduction reduction) {
        auto answers = run_all(ScatterInfo{0, reduction}, inputs, {Tensor(DataType::F32, {4})});
        auto* y = answers[0].outputs[0].as<float>();
        return std::vector<float>(y, y + 4);
    };
    EXPECT_EQ(run(ScatterReduction::None), (std::vector<float>{1, 30, 3, 20}));
    EXPECT_EQ(run(ScatterReduction::Add), (std::vector<float>{1, 42, 3, 24}));
    EXPECT_EQ(run(ScatterReduction::Mul), (std::vector<float>{1, 600, 3, 80}));
    EXPECT_EQ(run(ScatterReduction::Max), (std::vector<float>{1, 30, 3, 20}));
    EXPECT_EQ(run(ScatterReduction::Min), (std::vector<float>{1, 2, 3, 4}));
    std::vector<Tensor> nd{Tensor(DataType::I32, {2, 3}).set<int32_t>({1, 2, 3, 4, 5, 6}),
                           Tensor(DataType::I64, {1, 1}).set<int64_t>({1}),
                           Tensor(DataType::I32, {1, 3}).set<int32_t>({7, 8, 9})};
    auto answers = run_all(ScatterInfo{-1}, nd, {Tensor(DataType::I32, {2, 3})});
    auto* y = answers[0].outputs[0].as<int32_t>();
    EXPECT_EQ(std::vector<int32_t>(y, y + 6), (std::vector<int32_t>{1, 2, 3, 7, 8, 9}));
}

}  // namespace
}  // namespace refactor::kernel
