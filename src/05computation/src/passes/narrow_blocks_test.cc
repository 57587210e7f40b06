#include "passes/narrow_blocks.h"

#include "kernel/ops/elementwise.h"
#include "kernel/ops/reduce.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using kernel::ExprOp;
using kernel::Layout;
using test::rounding;
using test::TestGraph;

/// x → reorder → a → b → c → d → reorder, where a, c and d are convolutions of 48 channels that may round.
struct Network {
    TestGraph g{5};
    EdgePtr a, b, c, d;

    static EdgePtr blocked(EdgePtr edge) {
        edge->value.layout = Layout::Blocked16;
        return edge;
    }
    EdgePtr convolve(EdgePtr x, bool may_round) {
        kernel::ConvInfo conv;
        conv.window = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
        conv.may_round = may_round;
        return blocked(g.add(conv, {x, g.weights({48, 48, 3, 3})}, {1, 48, 20, 30}));
    }
    /// `between` makes b of a.
    template <class F>
    explicit Network(F&& between, bool may_round = true) {
        auto* x = blocked(g.add(kernel::ReorderInfo{}, {g.input({1, 48, 20, 30})}, {1, 48, 20, 30}));
        a = convolve(x, true), b = between(*this), c = convolve(b, may_round), d = convolve(c, true);
        g.output(g.add(kernel::ReorderInfo{}, {d}, {1, 48, 20, 30}));
    }
    int run(CompileOptions const& options = rounding(), Isa isa = Isa::Avx512Amx, TensorsBehind const* keep = nullptr,
            std::vector<std::string>* notes = nullptr) {
        return narrow_blocks(g.model, {options, isa, 1, keep, notes});
    }
    static bool is_narrow(EdgePtr edge) {
        bool const bf16 = edge->value.dtype == DataType::BF16, blocks = edge->value.layout == Layout::Blocked32;
        EXPECT_EQ(bf16, blocks) << edge->value.name;
        return bf16;
    }
};

EdgePtr nothing(Network& n) { return n.a; }
EdgePtr sigmoid(Network& n) {
    kernel::ElementwiseInfo info;
    info.code = {{ExprOp::Input, DataType::F32, {0}}, {ExprOp::Sigmoid, DataType::F32, {0}}};
    info.outputs = {1};
    return Network::blocked(n.g.add(info, {n.a}, {1, 48, 20, 30}));
}

TEST(NarrowBlocks, TensorsBetweenConvolutions) {
    Network n(nothing);
    std::vector<std::string> notes;
    EXPECT_EQ(n.run(rounding(), Isa::Avx512Amx, nullptr, &notes), 3);
    EXPECT_TRUE(n.is_narrow(n.a) && n.is_narrow(n.c));
    EXPECT_FALSE(n.is_narrow(n.d)) << "a result of the model";
    EXPECT_EQ(notes, std::vector<std::string>{"3 of 4 blocked tensors between layers are bf16"});
}

TEST(NarrowBlocks, ProgramsCastWhatTheyRead) {
    Network n(sigmoid);
    EXPECT_EQ(n.run(), 4);
    EXPECT_TRUE(n.is_narrow(n.a) && n.is_narrow(n.b) && n.is_narrow(n.c));
    auto const* program = info_of<kernel::ElementwiseInfo>(*n.b->producer()->value.op);
    ASSERT_EQ(program->code.size(), 4u);
    EXPECT_TRUE(program->code[0].op == ExprOp::Input && program->code[0].dtype == DataType::BF16);
    EXPECT_TRUE(program->code[1].op == ExprOp::Cast && program->code[1].dtype == DataType::F32);
    EXPECT_TRUE(program->code[2].op == ExprOp::Sigmoid && program->code[2].dtype == DataType::F32);
    EXPECT_TRUE(program->code[3].op == ExprOp::Cast && program->code[3].dtype == DataType::BF16);
    EXPECT_EQ(program->outputs[0], 3);
}

TEST(NarrowBlocks, LeavesWhatHasNoKernel) {
    // A mean over channels reads blocks of f32 alone.
    Network n([](Network& network) {
        auto* b = sigmoid(network);
        network.g.output(network.g.add(kernel::ReduceInfo{kernel::ReduceKind::Mean, {1}}, {b}, {1, 1, 20, 30}));
        return b;
    });
    EXPECT_EQ(n.run(), 2);
    EXPECT_FALSE(n.is_narrow(n.a) || n.is_narrow(n.b));
    EXPECT_TRUE(n.is_narrow(n.c));
}

TEST(NarrowBlocks, LeavesWhatStaysF32) {
    Network other(nothing, false);
    EXPECT_EQ(other.run(), 1);
    EXPECT_FALSE(other.is_narrow(other.a) || other.is_narrow(other.c));
    Network kept(sigmoid);
    TensorsBehind const keep{{"a node", {kept.b->value.name}}};
    EXPECT_EQ(kept.run(rounding(), Isa::Avx512Amx, &keep), 2);
    EXPECT_FALSE(kept.is_narrow(kept.a) || kept.is_narrow(kept.b));
    Network traced(nothing);
    traced.c->value.keep = true;
    EXPECT_EQ(traced.run(), 2);
    EXPECT_FALSE(traced.is_narrow(traced.c));
}

TEST(NarrowBlocks, LeavesTransposedConvolutionsOfManyPhases) {
    for (int64_t stride : {2, 65}) {
        Network n([&](Network& network) {
            kernel::ConvTransposeInfo conv;
            conv.window = {{stride, stride}, {1, 1}, {0, 0}, {0, 0}};
            conv.may_round = true;
            auto* x = network.a;
            auto* y = Network::blocked(
                network.g.add(conv, {x, network.g.weights({48, 4, stride, stride})}, {1, 4, 20 * stride, 30 * stride}));
            network.g.output(network.g.add(kernel::ReorderInfo{}, {y}, y->value.shape));
            return x;
        });
        n.run();
        EXPECT_EQ(n.is_narrow(n.a), stride == 2);
    }
}

TEST(NarrowBlocks, IsForRoundingOnACpu) {
    Network n(nothing);
    EXPECT_EQ(n.run(rounding("nvidia")), 0);
    EXPECT_EQ(n.run(CompileOptions{}), 0);
    EXPECT_EQ(n.run(rounding(), Isa::Avx512Vnni), 0);
    EXPECT_FALSE(n.is_narrow(n.a));
}

/// Each tensor is rounded once; what is computed of them is not.
TEST(NarrowBlocks, RoundsOnce) {
    if (cpu_features().isa < Isa::Avx512Amx) GTEST_SKIP() << "this processor has no tiles of bf16";
    TestGraph g(6);
    auto* x = g.input({1, 48, 20, 30});
    kernel::ConvInfo conv;
    conv.window = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
    auto* a = g.add(conv, {x, g.weights({40, 48, 3, 3})}, {1, 40, 20, 30});
    auto* b = g.add(conv, {a, g.weights({56, 40, 3, 3})}, {1, 56, 20, 30});
    g.output(g.add(conv, {b, g.weights({40, 56, 3, 3})}, {1, 40, 20, 30}));
    auto options = rounding();
    options.threads = 2;
    auto wide = options;
    wide.passes = {"-narrow_blocks"};
    std::vector<std::pair<Dims, std::vector<float>>> inputs{{{1, 48, 20, 30}, g.random_floats(48 * 20 * 30)}};
    auto program = compile(g.copy(), options).program;
    // Convolutions round what they read to the same numbers.
    EXPECT_EQ(test::run(program, inputs), test::run(compile(g.copy(), wide).program, inputs));
}

}  // namespace

}  // namespace refactor::computation
