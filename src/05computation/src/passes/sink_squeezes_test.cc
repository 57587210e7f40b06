#include "passes/sink_squeezes.h"

#include "common/cpu_features.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using namespace test;
using kernel::ExprOp;

constexpr int64_t kChannels = 24, kLength = 30, kTaps = 3;
/// Sums of 72 terms, up to 30 in size, of which Winograd's algorithm loses some 1e-6; tanh makes 1 of them at most.
constexpr double kTolerance = 4e-5;

/// A convolution along one axis, with or without a plane of one row, then tanh(x + bias), the largest of a channel.
struct AlongOneAxis {
    TestGraph g{11};
    Dims x;

    AlongOneAxis(bool row_first, Dims const& bias, bool pooled, bool convolved = true) {
        auto const length = convolved ? kLength - kTaps + 1 : kLength;
        auto at = [&](int64_t along) { return row_first ? Dims{1, along} : Dims{along, 1}; };
        auto with = [&](int64_t first, int64_t second, Dims const& last) {
            return Shape{first, second, last[0], last[1]};
        };
        x = {2, kChannels, at(kLength)[0], at(kLength)[1]};
        auto* y = g.input(with(2, kChannels, at(kLength)));
        auto const taps = at(kTaps);
        kernel::ConvInfo conv;
        conv.window = {{1, 1}, {1, 1}, {0, 0}, {0, 0}};
        if (convolved)
            y = g.add(conv, {y, g.weights({kChannels, kChannels, taps[0], taps[1]})}, with(2, kChannels, at(length)));
        Shape const squeezed{2, kChannels, length};
        y = g.elementwise(ExprOp::Add, {g.reshape(y, squeezed), g.weights(bias)}, squeezed);
        y = g.elementwise(ExprOp::Tanh, {y}, squeezed);
        if (pooled) y = g.add(kernel::GlobalPoolInfo{kernel::PoolKind::Max}, {y}, {2, kChannels, 1});
        g.output(y);
    }
    int sink() { return sink_squeezes(g.model, {CompileOptions{}, cpu_features().isa, 1}); }
};

TEST(SinkSqueezes, EpiloguesReachTheConvolution) {
    for (bool row_first : {false, true})
        for (bool pooled : {false, true}) {
            AlongOneAxis model(row_first, {kChannels, 1}, pooled);
            auto types = compare_passes(model.g, {model.x}, kTolerance);
            EXPECT_EQ(count(types, "Elementwise"), 0) << row_first << pooled;
            EXPECT_EQ(count(types, "GlobalPool"), pooled);
        }
}

TEST(SinkSqueezes, OperandsBroadcastAsBefore) {
    for (auto const& bias : std::vector<Dims>{{}, {1}, {1, 1, 1}, {28}, {kChannels, 28}, {2, 1, 28}}) {
        AlongOneAxis model(true, bias, true);
        compare_passes(model.g, {model.x}, kTolerance);
        EXPECT_EQ(AlongOneAxis(true, bias, true).sink(), 3);
    }
}

TEST(SinkSqueezes, OnlyBehindConvolutions) { EXPECT_EQ(AlongOneAxis(true, {kChannels, 1}, true, false).sink(), 0); }

TEST(SinkSqueezes, ReshapesOfOtherAxesStay) {
    TestGraph g(12);
    kernel::ConvInfo conv;
    conv.window = {{1, 1}, {1, 1}, {0, 0}, {0, 0}};
    auto* y = g.add(conv, {g.input({1, 4, 6, 1}), g.weights({8, 4, 1, 1})}, {1, 8, 6, 1});
    g.output(g.elementwise(ExprOp::Tanh, {g.reshape(y, {8, 6})}, {8, 6}));
    g.output(g.elementwise(ExprOp::Tanh, {g.reshape(y, {1, 8, 3, 2})}, {1, 8, 3, 2}));
    EXPECT_EQ(sink_squeezes(g.model, {CompileOptions{}, cpu_features().isa, 1}), 0);
}

}  // namespace
}  // namespace refactor::computation
