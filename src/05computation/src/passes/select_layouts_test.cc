#include "passes/select_layouts.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using kernel::ExprOp;
using test::compare_passes;
using test::count;
using test::TestGraph;

constexpr double kEps = 1.2e-7;

/// Those into blocks of channels and back, if there are blocks at all.
int64_t two_reorders() { return cpu_features().isa >= Isa::Avx2 ? 2 : 0; }

/// `channels` convolutions of `side` × `side` taps over `x`, of which the size stays.
EdgePtr convolve(TestGraph& g, EdgePtr x, int64_t channels, int64_t side) {
    auto shape = x->value.shape;
    shape[1] = DimExpr(channels);
    kernel::ConvInfo info;
    info.window = {{1, 1}, {1, 1}, {side / 2, side / 2}, {side / 2, side / 2}};
    return g.add(info, {x, g.weights({channels, *x->value.shape[1].constant(), side, side})}, shape);
}

std::vector<EdgePtr> split(TestGraph& g, EdgePtr x, std::vector<int64_t> const& channels) {
    auto* node =
        g.model.graph.insert({x->value.name + "_split", make_operator(kernel::SplitInfo{1})}, {x}, channels.size());
    std::vector<EdgePtr> parts;
    for (size_t i = 0; i < channels.size(); ++i) {
        auto* part = node->outputs()[i];
        part->value = x->value;
        part->value.name += "_" + std::to_string(i);
        part->value.shape[1] = DimExpr(channels[i]);
        parts.push_back(part);
    }
    return parts;
}

EdgePtr join(TestGraph& g, std::vector<EdgePtr> const& parts) {
    auto shape = parts[0]->value.shape;
    for (size_t i = 1; i < parts.size(); ++i) shape[1] = shape[1] + parts[i]->value.shape[1];
    return g.add(kernel::ConcatInfo{1}, parts, shape);
}

TEST(SelectLayouts, NeedsTwoReordersAroundAResidualNetwork) {
    TestGraph g(8);
    Shape shape{1, 64, 14, 14};
    auto* x = g.input(shape);
    for (int i = 0; i < 3; ++i)
        x = g.elementwise(ExprOp::Relu, {g.elementwise(ExprOp::Add, {convolve(g, x, 64, 3), x}, shape)}, shape);
    g.output(x);
    auto types = compare_passes(g, {{1, 64, 14, 14}}, 600 * kEps * 4);
    EXPECT_EQ(count(types, "Conv"), 3);
    EXPECT_EQ(count(types, "Reorder"), two_reorders());
}

TEST(SelectLayouts, WritesRowsOfFewChannels) {
    TestGraph g(9);
    auto* x = g.input({1, 64, 14, 14});
    g.output(convolve(g, convolve(g, x, 64, 3), 3, 3));
    auto types = compare_passes(g, {{1, 64, 14, 14}}, 600 * kEps * 64);
    EXPECT_EQ(count(types, "Reorder"), cpu_features().isa >= Isa::Avx2 ? 1 : 0) << "of X";
}

kernel::PoolInfo pool_of_two() {
    kernel::PoolInfo pool;
    pool.kernel = {2, 2}, pool.window = {{2, 2}, {1, 1}, {0, 0}, {0, 0}};
    return pool;
}

TEST(SelectLayouts, KeepsBlocksOfFewChannelsThatAreAskedFor) {
    TestGraph g(10);
    auto* x = g.input({1, 64, 14, 14});
    auto* few = convolve(g, convolve(g, x, 16, 3), 3, 1);
    g.output(g.add(pool_of_two(), {few}, {1, 3, 7, 7}));
    auto types = compare_passes(g, {{1, 64, 14, 14}}, 600 * kEps * 64);
    EXPECT_EQ(count(types, "Reorder"), two_reorders());
}

/// Where lanes would stay empty for more time than blocks take to make.
TEST(SelectLayouts, MakesBlocksOfFewChannelsBehindLongSums) {
    TestGraph g(20);
    auto* x = g.input({1, 64, 14, 14});
    auto* wide = convolve(g, x, 64, 3);
    g.output(convolve(g, join(g, {wide, convolve(g, wide, 1, 5)}), 64, 3));
    auto types = compare_passes(g, {{1, 64, 14, 14}}, 2000 * kEps * 64);
    EXPECT_EQ(count(types, "Reorder"), cpu_features().isa >= Isa::Avx2 ? 3 : 0) << "of X, one channel and Y";
}

TEST(SelectLayouts, LeavesRowsBetweenFewChannels) {
    TestGraph g(21);
    auto* x = g.input({1, 4, 14, 14});
    g.output(convolve(g, convolve(g, x, 4, 3), 1, 3));
    auto types = compare_passes(g, {{1, 4, 14, 14}}, 600 * kEps);
    EXPECT_EQ(count(types, "Reorder"), 0);
}

TEST(SelectLayouts, LeavesRowsThatFewOutputsRead) {
    // Products of whole images leave no lanes empty where rows are short; of many outputs blocks pay even so.
    for (auto const& [outputs, width] : {std::pair<int64_t, int64_t>{2, 5}, {2, 64}, {32, 5}}) {
        TestGraph g(22);
        g.output(convolve(g, g.input({1, 40, 14, width}), outputs, 3));
        auto types = compare_passes(g, {{1, 40, 14, width}}, 600 * kEps);
        EXPECT_EQ(count(types, "Reorder"), outputs == 2 ? 0 : two_reorders()) << outputs << " of " << width;
    }
}

TEST(SelectLayouts, LeavesRowsOfFewChannelsInGroups) {
    for (auto const& [channels, width] : {std::pair<int64_t, int64_t>{3, 14}, {6, 14}, {6, 300}, {16, 300}}) {
        TestGraph g(24);
        kernel::ConvInfo info;
        info.window = {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, info.group = channels;
        Dims dims{1, channels, 14, width};
        g.output(g.add(info, {g.input(Shape(dims.begin(), dims.end())), g.weights({channels, 1, 3, 3})},
                       Shape(dims.begin(), dims.end())));
        auto few = channels == 3 || (channels == 6 && width == 300);
        EXPECT_EQ(count(compare_passes(g, {dims}, 600 * kEps), "Reorder"), few ? 0 : two_reorders()) << channels;
    }
}

/// Groups that blocks of channels do not divide, of kernels of one element: lanes are positions of rows. Between
/// others, blocks of which are full, they are blocks like those.
TEST(SelectLayouts, LeavesRowsOfPointwiseGroups) {
    for (bool alone : {true, false}) {
        TestGraph g(25);
        auto* x = g.input({1, 80, 14, 14});
        if (!alone) x = convolve(g, x, 80, 3);
        kernel::ConvInfo info;
        info.window = {{1, 1}, {1, 1}, {0, 0}, {0, 0}}, info.group = alone ? 4 : 1;
        auto* y = g.add(info, {x, g.weights({80, 80 / info.group, 1, 1})}, {1, 80, 14, 14});
        g.output(alone ? y : convolve(g, y, 80, 3));
        auto types = compare_passes(g, {{1, 80, 14, 14}}, 2000 * kEps * 64);
        EXPECT_EQ(count(types, "Reorder"), alone ? 0 : two_reorders());
    }
}

/// Masks, noise, attention over positions: one channel for all.
TEST(SelectLayouts, KeepsBlocksBesideOneChannel) {
    for (Dims const& mask : {Dims{1, 1, 15, 13}, Dims{2, 1, 15, 13}, Dims{15, 13}, Dims{1, 15, 1}}) {
        TestGraph g(18);
        Shape shape{2, 64, 15, 13};
        auto* image = g.input({2, 24, 15, 13});
        auto* x =
            g.elementwise(ExprOp::Mul, {convolve(g, image, 64, 3), g.input(Shape(mask.begin(), mask.end()))}, shape);
        g.output(convolve(g, g.elementwise(ExprOp::Add, {x, g.weights({1, 1, 15, 13})}, shape), 24, 3));
        auto types = compare_passes(g, {{2, 24, 15, 13}, mask}, 2000 * kEps);
        EXPECT_EQ(count(types, "Reorder"), two_reorders()) << mask.size() << " axes";
    }
}

/// As attention over positions weighs them.
TEST(SelectLayouts, ReducesBlocksOfChannels) {
    using enum kernel::ReduceKind;
    for (auto [kind, channels] : {std::pair{Mean, 64}, {Sum, 60}, {Max, 64}, {L2, 64}}) {
        TestGraph g(19);
        Shape shape{2, channels, 15, 13};
        auto* x = convolve(g, g.input({2, 24, 15, 13}), channels, 3);
        auto* weight = g.add(kernel::ReduceInfo{kind, {1}}, {x}, {2, 1, 15, 13});
        g.output(convolve(g, g.elementwise(ExprOp::Mul, {x, weight}, shape), 24, 3));
        auto types = compare_passes(g, {{2, 24, 15, 13}}, 4000 * kEps);
        EXPECT_EQ(count(types, "Reduce"), 1u);
        EXPECT_EQ(count(types, "Reorder"), two_reorders()) << channels << " channels";
    }
}

/// Lanes behind the last channel are zeros, and a largest exponent comes first.
TEST(SelectLayouts, ReducesOtherChannelsAsRows) {
    using enum kernel::ReduceKind;
    for (auto [kind, channels] : {std::pair{Max, 60}, {LogSumExp, 64}}) {
        TestGraph g(20);
        auto* x = convolve(g, g.input({2, 24, 15, 13}), channels, 3);
        g.output(g.add(kernel::ReduceInfo{kind, {1}}, {x}, {2, 1, 15, 13}));
        EXPECT_EQ(count(compare_passes(g, {{2, 24, 15, 13}}, 4000 * kEps), "Reduce"), 1u);
    }
}

/// As in YOLOv8, where parts are whole blocks, and in Res2Net, where they are not.
TEST(SelectLayouts, CutsBlocksOfChannels) {
    for (auto const& channels : {std::vector<int64_t>{16, 32}, {26, 26, 26}, {20, 18}, {3, 45, 16}})
        for (int64_t batch : {1, 2}) {
            TestGraph g(9);
            auto n = DimExpr::symbol(g.model.symbols.intern("N"));
            auto* x = g.input({n, 24, 15, 13});
            int64_t all = 0;
            for (auto part : channels) all += part;
            auto parts = split(g, convolve(g, x, all, 3), channels);
            parts.push_back(convolve(g, parts.back(), 32, 3));
            g.output(convolve(g, join(g, parts), 24, 3));
            auto types = compare_passes(g, {{batch, 24, 15, 13}}, 2000 * kEps);
            EXPECT_EQ(count(types, "Split"), 1);
            EXPECT_EQ(count(types, "Reorder"), two_reorders()) << all << " channels in " << channels.size() << " parts";
        }
}

TEST(SelectLayouts, SlicesBlocksOfChannels) {
    struct Case {
        int64_t first, channels, row, step;
        size_t reorders;  ///< beyond those around the whole
    };
    // Whole blocks; up to the last channel; channels alone; all channels of some positions; some of some.
    for (auto const& c : {Case{16, 32, 0, 1, 0},
                          {32, 20, 0, 1, 0},
                          {5, 30, 0, 1, 0},
                          {0, 52, 3, 2, 0},
                          {16, 16, 3, 2, 0},
                          {5, 30, 3, 2, 2}}) {
        TestGraph g(10);
        auto n = DimExpr::symbol(g.model.symbols.intern("N"));
        auto* x = g.input({n, 24, 15, 13});
        auto* a = convolve(g, x, 52, 3);
        Shape shape{n, c.channels, (15 - c.row + c.step - 1) / c.step, 13};
        auto* part = g.add(kernel::SliceInfo{{1, 1, c.step, 1}}, {a}, shape, {0, c.first, c.row, 0});
        g.output(convolve(g, part, 24, 3));
        auto types = compare_passes(g, {{2, 24, 15, 13}}, 2000 * kEps);
        EXPECT_EQ(count(types, "Slice"), 1);
        auto expected = two_reorders() ? 2 + c.reorders : 0;
        EXPECT_EQ(count(types, "Reorder"), expected) << c.channels << " channels from " << c.first;
    }
}

/// A model whose parts are outputs needs them in rows: blocks would be reordered once more.
TEST(SelectLayouts, LeavesRowsWhereNothingReadsBlocks) {
    TestGraph g(11);
    auto* x = g.input({1, 48, 15, 13});
    auto* a = g.elementwise(ExprOp::Relu, {x}, {1, 48, 15, 13});
    for (auto* part : split(g, a, {16, 32})) g.output(g.elementwise(ExprOp::Exp, {part}, part->value.shape));
    EXPECT_EQ(count(compare_passes(g, {{1, 48, 15, 13}}, 8 * kEps), "Reorder"), 0);
}

}  // namespace

}  // namespace refactor::computation
