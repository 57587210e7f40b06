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

TEST(Gather, ElementsBesideAxesOfOne) {
    for_seeds(1, [](auto& random, DataType type) {
        for (auto const& x : {Dims{45, 31, 1}, Dims{1, 45, 1, 1, 7}, Dims{1, 1, 9}, Dims{1}, Dims{6, 1, 1}})
            for (int64_t axis = 0; axis < std::ssize(x); ++axis) {
                auto y = x;
                y[static_cast<size_t>(axis)] = 5;
                auto size = x[static_cast<size_t>(axis)];
                expect_equal(GatherElementsInfo{axis},
                             {Tensor(type, x).fill(random), indices(DataType::I64, y, -size, size - 1, random)},
                             {Tensor(type, y)});
            }
    });
}

TEST(Gather, ConstantIndicesThatCount) {
    for_seeds(2, [](auto& random, DataType type) {
        // All rows, every other one, backwards, from the end, windows that overlap, the same row again; then others.
        for (auto const& at : {std::vector<int64_t>{0, 1, 2, 3, 4, 5},
                               {1, 3, 5},
                               {4, 3, 2, 1},
                               {-3, -2, -1},
                               {0, 1, 2, 2, 3, 4},
                               {5, 3, 1, 4, 2, 0},
                               {2, 2, 2},
                               {-6},
                               {0, 1, 3},
                               {-1, 0, 1}})
            for (Dims const& x : {Dims{6, 5}, Dims{3, 6, 4}, Dims{2, 6}}) {
                int64_t axis = x[0] == 6 ? 0 : 1, count = std::ssize(at);
                auto y = x;
                y[axis] = count;
                auto i = Tensor(DataType::I64, {count}).set(at);
                i.constant = true;
                expect_equal(GatherInfo{axis}, {Tensor(type, x).fill(random), i}, {Tensor(type, y)});
            }
    });
    for (auto const& at : {std::vector<int64_t>{4, 5}, {-6, -5}, {3, INT64_MAX}}) {
        std::vector<Tensor> inputs{Tensor(DataType::F32, {5}), Tensor(DataType::I64, {2}).set(at)};
        inputs[1].constant = true;
        EXPECT_THROW(run_all(GatherInfo{0}, inputs, {Tensor(DataType::F32, {2})}), InvalidInput);
    }
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

}  // namespace
}  // namespace refactor::kernel
