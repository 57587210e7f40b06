#include "movement/movement_test.h"

#include "common/error.h"
#include "conv/geometry.h"
#include "kernel/ops/movement.h"

#include <cmath>

namespace refactor::kernel {
namespace {

using namespace testing;

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

TEST(Transpose, RowsThatShareSetsOfTheCaches) {
    for_seeds(1, [](auto& random, DataType type) {
        expect_equal(TransposeInfo{{1, 0}}, {Tensor(type, {512, 150}).fill(random)}, {Tensor(type, {150, 512})});
        // Rows of 64 elements, 512 and 4096 apart.
        expect_equal(TransposeInfo{{0, 3, 2, 1}}, {Tensor(type, {2, 64, 8, 65}).fill(random)},
                     {Tensor(type, {2, 65, 8, 64})});
        expect_equal(TransposeInfo{{2, 0, 1}}, {Tensor(type, {8, 64, 128}).fill(random)}, {Tensor(type, {128, 8, 64})});
    });
}

TEST(Transpose, FewColumns) {
    for_seeds(1, [](auto& random, DataType type) {
        for (int64_t columns = 1; columns <= 5; ++columns) {
            // As a DepthToSpace: columns are interleaved, in rows and by themselves.
            expect_equal(TransposeInfo{{0, 3, 1, 4, 2}}, {Tensor(type, {3, 2, columns, 7, 71}).fill(random)},
                         {Tensor(type, {3, 7, 2, 71, columns})});
            expect_equal(TransposeInfo{{1, 0}}, {Tensor(type, {columns, 143}).fill(random)},
                         {Tensor(type, {143, columns})});
            expect_equal(TransposeInfo{{1, 0}}, {Tensor(type, {143, columns}).fill(random)},
                         {Tensor(type, {columns, 143})});
        }
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

TEST(ConcatAndSplit, StripsOfShortRuns) {
    for_seeds(2, [](auto& random, DataType type) {
        Dims dims{701, 0, 3};
        std::vector<Tensor> pieces;
        int64_t sum = 0;
        for (int64_t size : {1, 0, 5, 40, 2}) {
            sum += dims[1] = size;
            pieces.push_back(Tensor(type, dims).fill(random));
        }
        dims[1] = sum;
        expect_equal(ConcatInfo{1}, pieces, {Tensor(type, dims)});
        expect_equal(SplitInfo{1}, {Tensor(type, dims).fill(random)}, pieces);
    });
}

/// Layouts of images.
constexpr Layout kBlocked[] = {Layout::Blocked32, Layout::Blocked16, Layout::Blocked8};
DataType type_in(Layout layout) { return layout == Layout::Blocked32 ? DataType::BF16 : DataType::F32; }

TEST(ConcatAndSplit, BlockedAndLarge) {
    std::mt19937 random(5);
    for (auto layout : kBlocked) {
        auto type = type_in(layout);
        std::vector<Tensor> pieces{Tensor(type, {2, 64, 40, 41}, layout).fill(random),
                                   Tensor(type, {2, 32, 40, 41}, layout).fill(random)};
        std::vector<Tensor> whole{Tensor(type, {2, 96, 40, 41}, layout)};
        EXPECT_NE(run_all(ConcatInfo{1}, pieces, whole).front().id.find("rows"), std::string::npos);
        expect_equal(ConcatInfo{1}, pieces, whole);
        expect_equal(SplitInfo{1}, {whole[0].fill(random)}, pieces);
    }
}

TEST(ConcatAndSplit, PartsOfBlocks) {
    std::mt19937 random(6);
    for (auto layout : kBlocked)
        for (int round = 0; round < 12; ++round) {
            auto type = type_in(layout);
            Dims dims{pick(random, 1, 2), 0, pick(random, 1, 30), pick(random, 1, 70)};
            std::vector<Tensor> pieces;
            int64_t sum = 0;
            for (int64_t i = 0, n = pick(random, 1, 5); i < n; ++i) {
                sum += dims[1] = pick(random, 1, 40);
                pieces.push_back(Tensor(type, dims, layout).fill(random));
            }
            dims[1] = sum;
            expect_equal(ConcatInfo{1}, pieces, {Tensor(type, dims, layout)});
            expect_equal(SplitInfo{1}, {Tensor(type, dims, layout).fill(random)}, pieces);
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

/// Random bytes, zero behind the last channel as every producer of blocks leaves it.
Tensor blocks_of(std::mt19937& random, Dims const& dims, Layout layout) {
    auto x = Tensor(type_in(layout), dims, layout).fill(random);
    Addressing at(x);
    auto bytes = movement::element_bytes(x.dtype);
    for (int64_t n = 0; n < dims[0]; ++n)
        for (auto c = at.channels; c < at.blocks() * at.block; ++c)
            for (int64_t s = 0; s < at.spatial; ++s)
                std::memset(x.data() + at.at(n, c, s) * bytes, 0, static_cast<size_t>(bytes));
    return x;
}

TEST(Slice, OfBlocks) {
    std::mt19937 random(8);
    for (auto layout : kBlocked)
        for (int round = 0; round < 60; ++round) {
            auto block = block_of(layout), rank = pick(random, 2, 5);
            auto x = random_dims(random, rank, 9);
            x[1] = pick(random, 1, 70);
            Dims y = x, steps(x.size(), 1);
            std::vector<int64_t> starts(x.size());
            starts[1] = pick(random, 0, x[1] - 1), y[1] = pick(random, 1, x[1] - starts[1]);
            // Whole blocks, and the other axes cut as well; or channels alone.
            if (round % 2) {
                starts[1] -= starts[1] % block, y[1] = std::min(x[1] - starts[1], (y[1] + block - 1) / block * block);
                for (size_t i = 0; i < x.size(); ++i)
                    if (i != 1) {
                        steps[i] = i && pick(random, 0, 1) ? -2 : 1, starts[i] = pick(random, 0, x[i] - 1);
                        y[i] = pick(random, 1, steps[i] > 0 ? x[i] - starts[i] : starts[i] / 2 + 1);
                    }
            }
            expect_equal(SliceInfo{steps}, {blocks_of(random, x, layout)}, {Tensor(type_in(layout), y, layout)},
                         starts);
        }
}

TEST(Slice, RefusesPartsOfBlocksThatNoKernelTakes) {
    auto why = [](SliceInfo const& info, DataType type, Layout in, Layout out) {
        Operand x{Tensor(type, {1, 20, 5}, in), nullptr}, y{Tensor(type, {1, 20, 5}, out), nullptr};
        return candidates(info, Request{{&x, 1}, {&y, 1}, "cpu", cpu_features().isa, 1, Precision::Default});
    };
    EXPECT_TRUE(why(SliceInfo{{1, 2, 1}}, DataType::F32, Layout::Blocked8, Layout::Blocked8).kernels.empty());
    EXPECT_TRUE(why(SliceInfo{{1, 1, 1}}, DataType::F32, Layout::Blocked8, Layout::Plain).kernels.empty());
    EXPECT_TRUE(why(SliceInfo{{1, 1, 1}}, DataType::BF16, Layout::Blocked32, Layout::Blocked16).kernels.empty());
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
