#include "common/error.h"
#include "kernel/ops/movement.h"
#include "movement/movement_test.h"

#include <numeric>

namespace refactor::kernel {
namespace {

using namespace testing;
using enum ScatterReduction;

constexpr ScatterReduction kReductions[] = {None, Add, Mul, Min, Max};

/// Numbers of `type`; sums of NaNs may keep the bits of either.
Tensor values(DataType type, Dims dims, std::mt19937& random) {
    Tensor t(type, dims);
    t.fill(random);
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < t.count(); ++i) {
        if (type == DataType::F32) t.as<float>()[i] = static_cast<float>(normal(random));
        if (type == DataType::F64) t.as<double>()[i] = normal(random);
    }
    return t;
}

Tensor constant(Tensor t) {
    t.constant = true;
    return t;
}

bool has_kernel(std::vector<Answer> const& answers, std::string_view id) {
    return std::any_of(answers.begin(), answers.end(),
                       [&](Answer const& answer) { return answer.id.find(id) != std::string::npos; });
}

/// Tuples that count along the axes of `counts` from `begin` on, the last one fastest: [tuples, depth].
std::vector<int64_t> counted(Dims const& begin, Dims const& counts, Dims const& steps) {
    std::vector<int64_t> tuples;
    movement::for_each_coordinate(counts, [&](Dims const& at, int64_t) {
        for (size_t k = 0; k < at.size(); ++k) tuples.push_back(begin[k] + at[k] * steps[k]);
    });
    return tuples;
}

TEST(Scatter, RowsEqualReference) {
    for_seeds(40, [](auto& random, DataType type) {
        auto rank = pick(random, 1, 4), depth = pick(random, 1, rank);
        auto x = random_dims(random, rank, 7);
        auto index_dims = random_dims(random, pick(random, 0, 2), 6);
        auto updates = index_dims;
        index_dims.push_back(depth);
        for (auto i = depth; i < rank; ++i) updates.push_back(x[i]);
        auto least = *std::min_element(x.begin(), x.end());
        auto index_type = pick(random, 0, 1) ? DataType::I32 : DataType::I64;
        for (auto reduction : kReductions)
            if (reduction == None || is_float(type) || is_integer(type))
                expect_equal(ScatterInfo{-1, reduction},
                             {values(type, x, random), indices(index_type, index_dims, -least, least - 1, random),
                              values(type, updates, random)},
                             {Tensor(type, x)});
    });
}

TEST(Scatter, ElementsEqualReference) {
    for_seeds(40, [](auto& random, DataType type) {
        auto rank = pick(random, 1, 4), axis = pick(random, 0, rank - 1);
        auto x = random_dims(random, rank, 7), updates = x;
        for (auto& size : updates)
            if (pick(random, 0, 1)) size = pick(random, 1, size);
        updates[axis] = pick(random, 1, 9);
        auto index_type = pick(random, 0, 1) ? DataType::I32 : DataType::I64;
        for (auto reduction : kReductions)
            if (reduction == None || is_float(type) || is_integer(type))
                expect_equal(ScatterInfo{axis, reduction},
                             {values(type, x, random), indices(index_type, updates, -x[axis], x[axis] - 1, random),
                              values(type, updates, random)},
                             {Tensor(type, x)});
    });
}

/// Sizes that threads share, with elements that are updated more than once.
TEST(Scatter, ThreadsShareWhatIsApart) {
    std::mt19937 random(3);
    auto check = [&](int64_t axis, Dims const& x, Dims const& at, Dims const& updates, int64_t size) {
        for (auto type : {DataType::F32, DataType::I8})
            for (auto reduction : {None, Add})
                expect_equal(ScatterInfo{axis, reduction},
                             {values(type, x, random), indices(DataType::I64, at, -size, size - 1, random),
                              values(type, updates, random)},
                             {Tensor(type, x)});
    };
    check(-1, {50, 3000}, {130, 1}, {130, 3000}, 50);
    check(-1, {7, 5, 2111}, {40, 2}, {40, 2111}, 5);
    for (Dims const& updates : {Dims{40, 30, 50}, Dims{41, 1, 601}, Dims{13, 170, 200}, Dims{30000, 1, 1}})
        for (int64_t axis = 0; axis < 3; ++axis) {
            auto x = updates;
            x[axis] = 33;
            check(axis, x, updates, updates, 33);
            for (auto& size : x) ++size;
            check(axis, x, updates, updates, 34);
        }
}

TEST(Scatter, ConstantIndicesThatCountAreABox) {
    for_seeds(60, [](auto& random, DataType type) {
        auto rank = pick(random, 1, 4), depth = pick(random, 1, rank);
        auto x = random_dims(random, rank, 9);
        Dims begin, counts, steps, updates;
        int64_t tuples = 1;
        for (int64_t i = 0; i < depth; ++i) {
            begin.push_back(pick(random, 0, x[i] - 1)), steps.push_back(pick(random, 1, 3));
            counts.push_back(pick(random, 1, (x[i] - begin[i] + steps[i] - 1) / steps[i]));
            if (pick(random, 0, 1)) begin[i] -= x[i];
            tuples *= counts[i];
        }
        auto at = counted(begin, counts, steps);
        for (bool flat : {false, true}) {
            auto index_dims = flat ? Dims{tuples} : counts;
            updates = index_dims, index_dims.push_back(depth);
            for (auto i = depth; i < rank; ++i) updates.push_back(x[i]);
            std::vector<Tensor> inputs{values(type, x, random), constant(Tensor(DataType::I64, index_dims).set(at)),
                                       values(type, updates, random)};
            EXPECT_TRUE(has_kernel(run_all(ScatterInfo{}, inputs, {Tensor(type, x)}), ":box:"));
            expect_equal(ScatterInfo{}, inputs, {Tensor(type, x)});
        }
    });
}

TEST(Scatter, OtherConstantIndicesAreNoBox) {
    std::mt19937 random(5);
    // The second axis is counted downwards, past the end of the data, twice, not evenly; both at once.
    for (auto const& at : {std::vector<int64_t>{0, 2, 0, 1, 1, 2, 1, 1},
                           {0, -1, 0, 0, 1, -1, 1, 0},
                           {0, 1, 0, 1, 1, 1, 1, 1},
                           {0, 0, 0, 1, 0, 3, 0, 2},
                           {0, 0, 1, 1, 2, 2, 3, 3}}) {
        std::vector<Tensor> inputs{values(DataType::I32, {4, 5}, random),
                                   constant(Tensor(DataType::I64, {4, 2}).set(at)), values(DataType::I32, {4}, random)};
        EXPECT_FALSE(has_kernel(run_all(ScatterInfo{}, inputs, {Tensor(DataType::I32, {4, 5})}), ":box:"));
        expect_equal(ScatterInfo{}, inputs, {Tensor(DataType::I32, {4, 5})});
    }
    for (auto const& at :
         {std::vector<int64_t>{3, 4, 5}, {-6, -5, -4}, {INT64_MIN, 0, INT64_MIN}, {-5, INT64_MAX - 5, -5}}) {
        std::vector<Tensor> inputs{values(DataType::I32, {5, 2}, random),
                                   constant(Tensor(DataType::I64, {3, 1}).set(at)),
                                   values(DataType::I32, {3, 2}, random)};
        EXPECT_THROW(run_all(ScatterInfo{}, inputs, {Tensor(DataType::I32, {5, 2})}), InvalidInput);
    }
}

TEST(Scatter, RefusesOtherShapesAndTypes) {
    auto kernels = [](ScatterInfo const& info, DataType type, DataType index, DataType updates) {
        std::vector<Operand> in{
            {Tensor(type, {4}), nullptr}, {Tensor(index, {2, 1}), nullptr}, {Tensor(updates, {2}), nullptr}};
        std::vector<Operand> out{{Tensor(type, {4}), nullptr}};
        return candidates(info, {in, out, "cpu", Isa::Scalar, 1, Precision::Default}).kernels.size();
    };
    using enum DataType;
    EXPECT_EQ(kernels(ScatterInfo{}, F32, I64, F32), 2u);
    EXPECT_EQ(kernels(ScatterInfo{}, F32, I8, F32), 0u);
    EXPECT_EQ(kernels(ScatterInfo{}, F32, I64, F64), 0u);
    EXPECT_EQ(kernels(ScatterInfo{-1, Add}, Bool, I64, Bool), 0u);
}

TEST(Scatter, RowsOfEqualAndOfMixedIndices) {
    std::vector<int64_t> const at{2, 2, 2, 0, 0, 0, 1, 3, 1, 2, 2, 2, -1, -1, -1};
    std::vector<float> data(12), updates(15);
    for (size_t i = 0; i < 12; ++i) data[i] = static_cast<float>(i);
    for (size_t i = 0; i < 15; ++i) updates[i] = static_cast<float>(100 * (i + 1));
    std::vector<Tensor> inputs{Tensor(DataType::F32, {4, 3}).set(data), Tensor(DataType::I64, {5, 3}).set(at),
                               Tensor(DataType::F32, {5, 3}).set(updates)};
    for (auto reduction : {None, Add}) {
        auto expected = data;
        for (size_t i = 0; i < 15; ++i) {
            auto& to = expected[static_cast<size_t>((at[i] + 4) % 4) * 3 + i % 3];
            to = updates[i] + (reduction == Add ? to : 0);
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
        for (auto reduction : {None, Add})
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
                        to = reduction == Add ? to + update : update;
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
    EXPECT_EQ(run(None), (std::vector<float>{1, 30, 3, 20}));
    EXPECT_EQ(run(Add), (std::vector<float>{1, 42, 3, 24}));
    EXPECT_EQ(run(Mul), (std::vector<float>{1, 600, 3, 80}));
    EXPECT_EQ(run(Max), (std::vector<float>{1, 30, 3, 20}));
    EXPECT_EQ(run(Min), (std::vector<float>{1, 2, 3, 4}));
    std::vector<Tensor> nd{Tensor(DataType::I32, {2, 3}).set<int32_t>({1, 2, 3, 4, 5, 6}),
                           Tensor(DataType::I64, {1, 1}).set<int64_t>({1}),
                           Tensor(DataType::I32, {1, 3}).set<int32_t>({7, 8, 9})};
    auto answers = run_all(ScatterInfo{-1}, nd, {Tensor(DataType::I32, {2, 3})});
    auto* y = answers[0].outputs[0].as<int32_t>();
    EXPECT_EQ(std::vector<int32_t>(y, y + 6), (std::vector<int32_t>{1, 2, 3, 7, 8, 9}));
}

}  // namespace
}  // namespace refactor::kernel
