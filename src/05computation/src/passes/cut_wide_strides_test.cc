#include "passes/cut_wide_strides.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using test::compare_passes;
using test::TestGraph;

kernel::ConvInfo conv(int64_t stride, int64_t dilation = 1, int64_t pad = 0) {
    kernel::ConvInfo info;
    info.window = {{stride}, {dilation}, {pad}, {pad}};
    return info;
}

bool transposes(std::vector<std::string> const& types) {
    return std::find(types.begin(), types.end(), "Transpose") != types.end();
}

// Sums of 768 products in another order.
constexpr double kSums = 768 * 1.2e-7;

TEST(CutWideStrides, ComputesTheSame) {
    struct Case {
        int64_t channels, stride, taps, length;
    };
    for (auto const& c : {Case{1, 128, 256, 640}, Case{3, 64, 256, 1000}, Case{2, 33, 33, 100}, Case{1, 40, 80, 119}}) {
        TestGraph g(static_cast<uint32_t>(c.stride));
        auto* x = g.input({2, c.channels, c.length});
        auto positions = (c.length - c.taps) / c.stride + 1;
        auto info = conv(c.stride);
        info.epilogue.bias = true;
        g.output(g.add(info, {x, g.weights({18, c.channels, c.taps}), g.weights({18})}, {2, 18, positions}));
        auto types = compare_passes(g, {{2, c.channels, c.length}}, kSums);
        EXPECT_TRUE(transposes(types)) << c.stride;
    }
}

TEST(CutWideStrides, FollowsSymbols) {
    TestGraph g(7);
    auto length = DimExpr::symbol(g.model.symbols.intern("L"));
    auto* x = g.input({1, 1, length});
    g.output(g.add(conv(50), {x, g.weights({5, 1, 100})}, {1, 5, floor_div(length - 100, 50) + 1}));
    EXPECT_TRUE(transposes(compare_passes(g, {{1, 1, 377}}, kSums)));
}

TEST(CutWideStrides, LeavesOthersAlone) {
    struct Case {
        kernel::ConvInfo info;
        int64_t taps, positions;
    };
    for (auto const& c :
         {Case{conv(32), 64, 10}, Case{conv(40), 60, 8}, Case{conv(40, 2), 80, 6}, Case{conv(40, 1, 4), 80, 8}}) {
        TestGraph g(8);
        auto extent = (c.taps - 1) * c.info.window.dilations[0] + 1;
        auto length = (c.positions - 1) * c.info.window.strides[0] + extent - 2 * c.info.window.pads_begin[0];
        auto* x = g.input({1, 2, length});
        g.output(g.add(c.info, {x, g.weights({5, 2, c.taps})}, {1, 5, c.positions}));
        EXPECT_FALSE(transposes(compare_passes(g, {{1, 2, length}}, kSums)));
    }
}

}  // namespace
}  // namespace refactor::computation
