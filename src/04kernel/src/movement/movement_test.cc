#include "movement/movement_test.h"

#include "common/error.h"
#include "kernel/ops/movement.h"

#include <cmath>

namespace refactor::kernel {
namespace {

using namespace testing;

/// Runs `body(random, type)` for every element width with several seeds.
template <class F>
void for_seeds(int seeds, F&& body) {
    for (int seed = 0; seed < seeds; ++seed)
        for (auto type : kWidths) {
            SCOPED_TRACE("seed " + std::to_string(seed) + " " + std::string(name_of(type)));
            std::mt19937 random(static_cast<uint32_t>(seed));
            body(random, type);
            if (::testing::Test::HasFatalFailure()) return;
        }
}

TEST(Transpose, EqualsReference) {
    for_seeds(60, [](auto& random, DataType type) {
        auto rank = pick(random, 0, 6);
        auto x = random_dims(random, rank, rank > 3 ? 6 : 40);
        Dims perm, y;
        for (int64_t i = 0; i < rank; ++i) perm.push_back(i);
        std::shuffle(perm.begin(), perm.end(), random);
        for (auto axis : perm) y.push_back(x[axis]);
        expect_equal(TransposeInfo{perm}, {Tensor(type, x).fill(random)}, {Tensor(type, y)});
    });
}

TEST(Transpose, LargeOnThreads) {
    for_seeds(1, [](auto& random, DataType type) {
        expect_equal(TransposeInfo{{0, 2, 1, 3}}, {Tensor(type, {2, 97, 12, 64}).fill(random)},
                     {Tensor(type, {2, 12, 97, 64})});
        expect_equal(TransposeInfo{{1, 0}}, {Tensor(type, {301, 517}).fill(random)}, {Tensor(type, {517, 301})});
        expect_equal(TransposeInfo{{0, 2, 3, 1}}, {Tensor(type, {2, 35, 33, 67}).fill(random)},
                     {Tensor(type, {2, 33, 67, 35})});
    });
}

TEST(Transpose, RefusesWrongPermutations) {
    Tensor x(DataType::F32, {2, 3});
    std::vector<Operand> in{{x, nullptr}}, out{{x, nullptr}};
    for (Dims perm : {Dims{0, 0}, Dims{0, 2}, Dims{-1, 0}})
        EXPECT_TRUE(candidates(TransposeInfo{perm}, {in, out}).kernels.empty());
    std::vector<Operand> text(1);
    text[0].dtype = DataType::String;
    EXPECT_TRUE(candidates(TransposeInfo{{0, 1}}, {text, text}).kernels.empty());
}

TEST(ConcatAndSplit, EqualReference) {
    for_seeds(40, [](auto& random, DataType type) {
        auto rank = pick(random, 1, 4), axis = pick(random, 0, rank - 1);
        auto dims = random_dims(random, rank, 9);
        std::vector<Tensor> pieces;
        int64_t sum = 0;
        for (int64_t i = 0, n = pick(random, 1, 5); i < n; ++i) {
            dims[axis] = pick(random, 0, 7);
            sum += dims[axis];
            pieces.push_back(Tensor(type, dims).fill(random));
        }
        dims[axis] = sum;
        expect_equal(ConcatInfo{axis}, pieces, {Tensor(type, dims)});
        std::vector<Tensor> outputs;
        for (auto const& piece : pieces) outputs.emplace_back(type, piece.dims);
        expect_equal(SplitInfo{axis}, {Tensor(type, dims).fill(random)}, outputs);
    });
}

TEST(ConcatAndSplit, StackedElements) {
    for_seeds(12, [](auto& random, DataType type) {
        Dims dims{pick(random, 1, 5), pick(random, 1, 40), 1};
        std::vector<Tensor> pieces;
        for (int64_t i = 0, n = pick(random, 2, 6); i < n; ++i) pieces.push_back(Tensor(type, dims).fill(random));
        dims.back() = static_cast<int64_t>(pieces.size());
        expect_equal(ConcatInfo{2}, pieces, {Tensor(type, dims)});
    });
}

TEST(ConcatAndSplit, BlockedAndLarge) {
    std::mt19937 random(5);
    auto type = DataType::F32;
    for (auto layout : {Layout::Blocked16, Layout::Blocked8}) {
        std::vector<Tensor> pieces{Tensor(type, {2, 32, 40, 41}, layout).fill(random),
                                   Tensor(type, {2, 16, 40, 41}, layout).fill(random)};
        expect_equal(ConcatInfo{1}, pieces, {Tensor(type, {2, 48, 40, 41}, layout)});
        expect_equal(SplitInfo{1}, {Tensor(type, {2, 48, 40, 41}, layout).fill(random)}, pieces);
    }
}

TEST(ConcatAndSplit, PartsOfBlocks) {
    std::mt19937 random(6);
    for (auto layout : {Layout::Blocked16, Layout::Blocked8})
        for (int round = 0; round < 12; ++round) {
            Dims dims{pick(random, 1, 2), 0, pick(random, 1, 30), pick(random, 1, 70)};
            std::vector<Tensor> pieces;
            int64_t sum = 0;
            for (int64_t i = 0, n = pick(random, 1, 5); i < n; ++i) {
                sum += dims[1] = pick(random, 1, 40);
                pieces.push_back(Tensor(DataType::F32, dims, layout).fill(random));
            }
            dims[1] = sum;
            expect_equal(ConcatInfo{1}, pieces, {Tensor(DataType::F32, dims, layout)});
        }
}

TEST(Slice, EqualsReference) {
    for_seeds(60, [](auto& random, DataType type) {
        auto rank = pick(random, 1, 5);
        auto x = random_dims(random, rank, 11);
        Dims y, steps;
        std::vector<int64_t> starts;
        for (auto size : x) {
            auto step = pick(random, 0, 1) ? 1 : pick(random, -3, 3);
            if (step == 0) step = 1;
            auto start = pick(random, 0, size - 1),
                 most = step > 0 ? (size - start + step - 1) / step : start / -step + 1;
            steps.push_back(step), starts.push_back(start), y.push_back(pick(random, pick(random, 0, 1), most));
        }
        expect_equal(SliceInfo{steps}, {Tensor(type, x).fill(random)}, {Tensor(type, y)}, starts);
    });
}

TEST(Expand, EqualsReference) {
    for_seeds(50, [](auto& random, DataType type) {
        auto rank = pick(random, 0, 5);
        auto y = random_dims(random, rank, 7);
        Dims x = y, repeated = y;
        for (auto& size : x)
            if (pick(random, 0, 1)) size = 1;
        auto tiled = x;
        while (!x.empty() && x[0] == 1 && pick(random, 0, 1)) x.erase(x.begin());
        expect_equal(ExpandInfo{}, {Tensor(type, x).fill(random)}, {Tensor(type, y)});
        for (size_t i = 0; i < tiled.size(); ++i) repeated[i] = tiled[i] * pick(random, 1, 3);
        expect_equal(ExpandInfo{true}, {Tensor(type, tiled).fill(random)}, {Tensor(type, repeated)});
    });
}

TEST(Pad, EqualsReference) {
    for_seeds(40, [](auto& random, DataType type) {
        for (auto mode : {PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap}) {
            auto rank = pick(random, 0, 4);
            auto x = random_dims(random, rank, 8);
            Dims y;
            std::vector<int64_t> begins;
            for (auto size : x) {
                begins.push_back(pick(random, -1, 4));
                y.push_back(std::max<int64_t>(0, begins.back() + size + pick(random, -1, 4)));
            }
            std::vector<Tensor> inputs{Tensor(type, x).fill(random)};
            if (pick(random, 0, 1)) inputs.push_back(Tensor(type, {}).fill(random));
            expect_equal(PadInfo{mode}, inputs, {Tensor(type, y)}, begins);
        }
    });
}

TEST(Pad, Reflects) {
    std::vector<Tensor> x{Tensor(DataType::F32, {3}).set<float>({1, 2, 3})};
    auto answers = run_all(PadInfo{PadMode::Reflect}, x, {Tensor(DataType::F32, {9})}, {3});
    for (auto& answer : answers) {
        std::vector<float> y(answer.outputs[0].as<float>(), answer.outputs[0].as<float>() + 9);
        EXPECT_EQ(y, (std::vector<float>{2, 3, 2, 1, 2, 3, 2, 1, 2})) << answer.id;
    }
}

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

TEST(SmallOnes, CopyShapeValuesRangeTriluOneHot) {
    std::mt19937 random(3);
    for (auto type : kWidths)
        expect_equal(CopyInfo{}, {Tensor(type, {7, 50001}).fill(random)}, {Tensor(type, {50001, 7})});
    std::vector<Tensor> none;
    auto shape = run_all(ShapeValuesInfo{}, none, {Tensor(DataType::I64, {3})}, {4, -1, 1ll << 40});
    EXPECT_EQ(shape[0].outputs[0].as<int64_t>()[2], 1ll << 40);
    auto range = run_all(RangeInfo{}, none, {Tensor(DataType::I64, {4})}, {5, -2});
    EXPECT_EQ(range[0].outputs[0].as<int64_t>()[3], -1);
    std::vector<Tensor> bounds{Tensor(DataType::F32, {}).set<float>({1}),
                               Tensor(DataType::F32, {}).set<float>({0.25f})};
    EXPECT_EQ(run_all(RangeInfo{}, bounds, {Tensor(DataType::F32, {5})})[0].outputs[0].as<float>()[4], 2.f);

    std::vector<Tensor> x{Tensor(DataType::I32, {2, 3}).set<int32_t>({1, 2, 3, 4, 5, 6})};
    auto trilu = [&](bool upper, int64_t k) {
        auto answers = run_all(TriluInfo{upper}, x, {Tensor(DataType::I32, {2, 3})}, {k});
        auto* y = answers[0].outputs[0].as<int32_t>();
        return std::vector<int32_t>(y, y + 6);
    };
    EXPECT_EQ(trilu(true, 0), (std::vector<int32_t>{1, 2, 3, 0, 5, 6}));
    EXPECT_EQ(trilu(true, 2), (std::vector<int32_t>{0, 0, 3, 0, 0, 0}));
    EXPECT_EQ(trilu(true, INT64_MAX), (std::vector<int32_t>{0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(trilu(false, 0), (std::vector<int32_t>{1, 0, 0, 4, 5, 0}));
    EXPECT_EQ(trilu(false, -1), (std::vector<int32_t>{0, 0, 0, 4, 0, 0}));

    std::vector<Tensor> hot{Tensor(DataType::I64, {3}).set<int64_t>({1, -1, 9}),
                            Tensor(DataType::F32, {2}).set<float>({-1, 2})};
    auto answers = run_all(OneHotInfo{-1}, hot, {Tensor(DataType::F32, {3, 3})});
    auto* y = answers[0].outputs[0].as<float>();
    EXPECT_EQ(std::vector<float>(y, y + 9), (std::vector<float>{-1, 2, -1, -1, -1, 2, -1, -1, -1}));
}

}  // namespace
}  // namespace refactor::kernel
