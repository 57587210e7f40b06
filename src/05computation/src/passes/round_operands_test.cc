#include "passes/round_operands.h"

#include "kernel/ops/recurrent.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using test::TestGraph;

/// A convolution, a product by a constant and one by an operand.
struct Network {
    TestGraph g{3};
    NodePtr convolution, product, other;

    Network() {
        kernel::ConvInfo conv;
        conv.window = {{1, 1}, {1, 1}, {0, 0}, {0, 0}};
        auto* x = g.input({1, 64, 7, 9});
        auto* image = g.add(conv, {x, g.weights({32, 64, 1, 1})}, {1, 32, 7, 9});
        auto* rows = g.reshape(image, {1, 32, 63});
        auto* wide = g.add(kernel::MatMulInfo{}, {rows, g.weights({63, 40})}, {1, 32, 40});
        auto* last = g.add(kernel::MatMulInfo{}, {wide, g.input({1, 40, 24})}, {1, 32, 24});
        convolution = image->producer(), product = wide->producer(), other = last->producer();
        g.output(last);
    }
    /// What the pass notes; the graph is changed.
    std::vector<std::string> round(CompileOptions const& options, Isa isa = Isa::Avx512Bf16,
                                   TensorsBehind const* keep = nullptr) {
        std::vector<std::string> notes;
        round_operands(g.model, {options, isa, 1, keep, &notes});
        return notes;
    }
    bool rounds(NodePtr node) const {
        auto const* conv = info_of<kernel::ConvInfo>(*node->value.op);
        return conv ? conv->may_round : info_of<kernel::MatMulInfo>(*node->value.op)->may_round;
    }
};

CompileOptions lower(DataType type, char const* device = "cpu") {
    CompileOptions options;
    options.device = device, options.compute = type;
    return options;
}

TEST(RoundOperands, MarksProductsAndConvolutions) {
    Network n;
    auto notes = n.round(lower(DataType::BF16));
    EXPECT_TRUE(n.rounds(n.convolution) && n.rounds(n.product) && n.rounds(n.other));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0],
              "2 products, 1 convolution, 0 attentions and 0 recurrent layers may round their operands to bf16");
}

TEST(RoundOperands, MarksRecurrentLayersOfFloats) {
    TestGraph g(4);
    kernel::RecurrentInfo info;
    info.hidden = 6;
    info.activations = {{kernel::CellFunction::Sigmoid}, {kernel::CellFunction::Tanh}, {kernel::CellFunction::Tanh}};
    auto* x = g.input({5, 2, 4});
    auto* floats = g.add(info, {x, g.weights({1, 24, 4}), g.weights({1, 24, 6})}, {5, 1, 2, 6});
    info.quantized = true;
    auto *w = g.input({1, 4, 24}, DataType::U8), *r = g.input({1, 6, 24}, DataType::U8);
    auto *scale = g.scalar(0.01f), *zero = g.input({1}, DataType::U8);
    auto* bytes = g.add(info, {x, w, r, scale, zero, scale, zero}, {5, 1, 2, 6});
    g.output(floats), g.output(bytes);
    std::vector<std::string> notes;
    EXPECT_EQ(round_operands(g.model, {lower(DataType::BF16), Isa::Avx512Bf16, 1, nullptr, &notes}), 1);
    auto rounds = [](EdgePtr y) { return info_of<kernel::RecurrentInfo>(*y->producer()->value.op)->may_round; };
    EXPECT_TRUE(rounds(floats));
    EXPECT_FALSE(rounds(bytes));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_EQ(notes[0],
              "0 products, 0 convolutions, 0 attentions and 1 recurrent layer may round their operands to bf16");
}

TEST(RoundOperands, LeavesWhatIsKept) {
    Network n;
    TensorsBehind const keep{{"a node", {n.product->output()->value.name}}, {"gone", {}}};
    auto notes = n.round(lower(DataType::BF16), Isa::Avx512Bf16, &keep);
    EXPECT_TRUE(n.rounds(n.convolution) && !n.rounds(n.product) && n.rounds(n.other));
    ASSERT_EQ(notes.size(), 2u);
    EXPECT_EQ(notes[0], "keep_f32: no node of this program is named \"gone\"");
}

TEST(RoundOperands, SaysWhyNothingRounds) {
    struct {
        CompileOptions options;
        Isa isa;
        std::vector<std::string> notes;
    } const cases[]{
        {lower(DataType::Undefined), Isa::Avx512Bf16, {}},
        {lower(DataType::BF16, "nvidia"), Isa::Avx512Bf16, {}},
        {lower(DataType::F16), Isa::Avx512Bf16, {"nothing is rounded: a CPU multiplies f16 no faster than f32"}},
        {lower(DataType::BF16),
         Isa::Avx512Vnni,
         {"nothing is rounded: avx512vnni multiplies bf16 no faster than f32"}}};
    for (auto const& c : cases) {
        Network n;
        EXPECT_EQ(n.round(c.options, c.isa), c.notes);
        EXPECT_FALSE(n.rounds(n.convolution) || n.rounds(n.product) || n.rounds(n.other));
    }
}

/// Operands that are numbers of bf16 are multiplied as they are: sums are f32.
TEST(RoundOperands, SumsStayF32) {
    if (cpu_features().isa < Isa::Avx512Bf16) GTEST_SKIP() << "this processor has no products of bf16";
    TestGraph g(5);
    auto few_bits = [&](int64_t count) {
        auto values = g.random_floats(static_cast<size_t>(count));
        for (auto& value : values) value = std::round(value * 16) / 16;
        return values;
    };
    auto* x = g.input({1, 40, 200});
    g.output(g.add(kernel::MatMulInfo{}, {x, g.constant({200, 64}, few_bits(200 * 64))}, {1, 40, 64}));
    auto options = lower(DataType::BF16);
    options.threads = 1;
    auto exact = options;
    exact.passes = {"-all"};
    std::vector<std::pair<Dims, std::vector<float>>> inputs{{{1, 40, 200}, few_bits(40 * 200)}};
    // Multiples of 2^-8 below 2^11 need 19 bits: all orders of the sums give the same.
    EXPECT_EQ(test::run(compile(g.copy(), options).program, inputs),
              test::run(compile(g.copy(), exact).program, inputs));
}

}  // namespace

}  // namespace refactor::computation
