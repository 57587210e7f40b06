#include "passes/trim_convolutions.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using namespace test;
using kernel::ExprOp;

kernel::SliceInfo whole_steps(size_t rank) { return {Dims(rank, 1)}; }

/// X [2, 8, N], a window of 4 with 3 zeros on both sides, of whose N + 3 positions `begin` and `end` are cut off.
Types after_causal(int64_t begin, int64_t end, int64_t stride = 1) {
    TestGraph g(1);
    auto N = DimExpr::symbol(g.model.symbols.intern("N"));
    kernel::ConvInfo conv;
    conv.window = {{stride}, {1}, {3}, {3}}, conv.group = 8;
    auto positions = floor_div(N + 2, stride) + 1;
    auto* y = g.add(conv, {g.input({2, 8, N}), g.weights({8, 1, 4})}, {2, 8, positions});
    y = g.add(whole_steps(3), {y}, {2, 8, positions - begin - end}, {0, 0, begin});
    g.output(g.elementwise(ExprOp::Relu, {y}, {2, 8, positions - begin - end}));
    return compare_passes(g, {{2, 8, 21}}, 1e-5);
}

TEST(TrimConvolutions, OfOneSideAndBoth) {
    for (auto [begin, end] : {std::pair{0, 3}, {0, 1}, {3, 0}, {2, 2}, {0, 0}}) {
        auto types = after_causal(begin, end);
        EXPECT_EQ(count(types, "Slice"), 0) << begin << ", " << end;
        EXPECT_EQ(count(types, "Elementwise"), 0) << "the activation is the convolution's epilogue";
    }
    EXPECT_EQ(count(after_causal(0, 1, 2), "Slice"), 0);
    EXPECT_EQ(count(after_causal(1, 1, 3), "Slice"), 0);
}

TEST(TrimConvolutions, LeavesPositionsOfImages) {
    EXPECT_EQ(count(after_causal(0, 4), "Slice"), 1);
    EXPECT_EQ(count(after_causal(4, 0), "Slice"), 1);
    EXPECT_EQ(count(after_causal(2, 0, 2), "Slice"), 1);
}

TEST(TrimConvolutions, Transposed) {
    TestGraph g(2);
    kernel::ConvTransposeInfo conv;
    conv.window = {{2, 2}, {1, 1}, {0, 1}, {0, 1}};
    auto* y = g.add(conv, {g.input({1, 6, 5, 7}), g.weights({6, 9, 4, 4})}, {1, 9, 12, 14});
    g.output(g.add(whole_steps(4), {y}, {1, 9, 10, 9}, {0, 0, 1, 3}));
    EXPECT_EQ(count(compare_passes(g, {{1, 6, 5, 7}}, 1e-5), "Slice"), 0);
}

TEST(TrimConvolutions, LeavesChannelsStepsAndOtherReaders) {
    TestGraph g(3);
    kernel::ConvInfo conv;
    conv.window = {{1}, {1}, {2}, {2}};
    auto* x = g.input({2, 8, 9});
    auto convolved = [&] { return g.add(conv, {x, g.weights({6, 8, 3})}, {2, 6, 11}); };
    g.output(g.add(whole_steps(3), {convolved()}, {2, 4, 10}, {0, 1, 0}));
    g.output(g.add(kernel::SliceInfo{{1, 1, 2}}, {convolved()}, {2, 6, 5}, {0, 0, 0}));
    g.output(g.add(whole_steps(3), {convolved()}, {1, 6, 9}, {1, 0, 0}));
    auto* read = convolved();
    g.output(g.add(whole_steps(3), {read}, {2, 6, 9}, {0, 0, 0}));
    g.output(g.elementwise(ExprOp::Abs, {read}, {2, 6, 11}));
    EXPECT_EQ(count(compare_passes(g, {{2, 8, 9}}, 1e-5), "Slice"), 4);
}

TEST(TrimConvolutions, LeavesKeptTensors) {
    TestGraph g(4);
    kernel::ConvInfo conv;
    conv.window = {{1}, {1}, {2}, {2}};
    auto* y = g.add(conv, {g.input({2, 8, 9}), g.weights({6, 8, 3})}, {2, 6, 11});
    g.output(g.add(whole_steps(3), {y}, {2, 6, 9}, {0, 0, 0}));
    CompileOptions options;
    EXPECT_EQ(count(types_of(*compile(g.copy(), options).program), "Slice"), 0);
    options.keep = {y->value.name};
    EXPECT_EQ(count(types_of(*compile(g.copy(), options).program), "Slice"), 1);
}

}  // namespace
}  // namespace refactor::computation
