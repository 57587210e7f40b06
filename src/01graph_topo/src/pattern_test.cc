#include "graph_topo/pattern.h"

#include "common/error.h"

#include <string>

#include <gtest/gtest.h>

namespace refactor::graph_topo {

namespace {

using Linked = LinkedGraph<std::string, int>;
using Text = Pattern<std::string, int>;

auto is(std::string name) {
    return [name = std::move(name)](std::string const& op) { return op == name; };
}

struct PatternTest : testing::Test {
    Linked graph;
    Linked::EdgePtr x = graph.add_input(1), w = graph.add_source(2), b = graph.add_source(3);

    Linked::EdgePtr op(std::string name, std::initializer_list<Linked::EdgePtr> inputs) {
        return graph.insert(std::move(name), inputs)->output();
    }
};

TEST_F(PatternTest, BindsTermsOfAChain) {
    auto* product = op("matmul", {x, w});
    auto* sum = op("add", {product, b});
    graph.add_output(sum);
    Text pattern;
    auto px = pattern.any();
    auto pw = pattern.edge([](auto const& edge) { return edge.is_source(); });
    auto pm = pattern.op(is("matmul"), {px, pw});
    auto pb = pattern.any();
    auto ps = pattern.op(is("add"), {pm, pb});
    auto match = pattern.match(sum->producer());
    ASSERT_TRUE(match);
    EXPECT_EQ((*match)[px], x);
    EXPECT_EQ((*match)[pw], w);
    EXPECT_EQ((*match)[pb], b);
    EXPECT_EQ(match->node(pm), product->producer());
    EXPECT_EQ(match->edge(ps), sum);
    EXPECT_EQ(match->node(px), nullptr);
    EXPECT_FALSE(pattern.match(product->producer()));
}

TEST_F(PatternTest, InnerValuesMustNotEscapeUnlessShared) {
    auto* inner = op("exp", {x});
    auto* outer = op("neg", {inner});
    graph.add_output(outer);
    Text strict, loose;
    strict.op(is("neg"), {strict.op(is("exp"), {strict.any()})});
    loose.op(is("neg"), {loose.shared(loose.op(is("exp"), {loose.any()}))});
    EXPECT_TRUE(strict.match(outer->producer()));
    auto* other = op("abs", {inner});
    EXPECT_FALSE(strict.match(outer->producer()));
    EXPECT_TRUE(loose.match(outer->producer()));
    graph.erase(other->producer());
    EXPECT_TRUE(strict.match(outer->producer()));
    graph.add_output(inner);
    EXPECT_FALSE(strict.match(outer->producer()));
}

TEST_F(PatternTest, CommutativeOperandsBacktrack) {
    // add(mul(x, sigmoid(x)), mul(w, b)): both operands of the addition are products, only one of them the wanted one.
    auto* silu = op("mul", {op("sigmoid", {x}), x});
    auto* plain = op("mul", {w, b});
    for (bool swapped : {false, true}) {
        auto* sum = swapped ? op("add", {plain, silu}) : op("add", {silu, plain});
        Text pattern;
        auto px = pattern.any(), rest = pattern.any();
        auto gate = pattern.op(is("sigmoid"), {px});
        auto product = pattern.shared(pattern.commutative(is("mul"), {px, gate}));
        pattern.commutative(is("add"), {product, rest});
        auto match = pattern.match(sum->producer());
        ASSERT_TRUE(match) << swapped;
        EXPECT_EQ((*match)[px], x);
        EXPECT_EQ((*match)[rest], plain);
        graph.erase(sum->producer());
    }
}

TEST_F(PatternTest, ATermThatOccursTwiceIsOneEdge) {
    Text pattern;
    auto px = pattern.any();
    pattern.op(is("mul"), {px, px});
    EXPECT_TRUE(pattern.match(op("mul", {x, x})->producer()));
    EXPECT_FALSE(pattern.match(op("mul", {x, w})->producer()));
}

TEST_F(PatternTest, OmittedInputs) {
    Text any_bias, no_bias;
    {
        auto a = any_bias.any(), c = any_bias.any();
        any_bias.op(is("conv"), {a, c, any_bias.optional()});
    }
    {
        auto a = no_bias.any(), c = no_bias.any();
        no_bias.op(is("conv"), {a, c, no_bias.absent()});
    }
    auto* with = op("conv", {x, w, b})->producer();
    auto* without = op("conv", {x, w})->producer();
    auto* omitted = op("conv", {x, w, nullptr, nullptr})->producer();
    auto* more = op("conv", {x, w, b, b})->producer();
    EXPECT_TRUE(any_bias.match(with) && any_bias.match(without) && any_bias.match(omitted));
    EXPECT_FALSE(any_bias.match(more));
    EXPECT_FALSE(no_bias.match(with));
    EXPECT_TRUE(no_bias.match(without) && no_bias.match(omitted));
}

TEST_F(PatternTest, MatchesAChosenOutput) {
    auto* split = graph.insert("split", {x}, 2);
    Text second;
    second.op(is("neg"), {second.op(is("split"), {second.any()}, 1)});
    EXPECT_FALSE(second.match(op("neg", {split->output(0)})->producer()));
    graph.erase(split->output(0)->consumers()[0].node);
    EXPECT_TRUE(second.match(op("neg", {split->output(1)})->producer()));
}

TEST_F(PatternTest, ReplacedMatchLeavesNothingBehind) {
    auto* root = op("add", {op("matmul", {x, w}), b});
    graph.add_output(op("relu", {root}));
    Text pattern;
    auto px = pattern.any(), pw = pattern.any(), pb = pattern.any();
    auto product = pattern.op(is("matmul"), {px, pw});
    pattern.commutative(is("add"), {product, pb});
    size_t found = 0;
    for (auto* node : graph.topological())
        if (auto match = pattern.match(node)) {
            ++found;
            auto* fused = graph.insert("gemm", {(*match)[px], (*match)[pw], (*match)[pb]});
            graph.replace_all_uses(node->output(), fused->output());
            match->erase_unused(graph);
        }
    EXPECT_EQ(found, 1u);
    EXPECT_EQ(graph.node_count(), 2u);
    EXPECT_TRUE(graph.verify().empty());
}

TEST_F(PatternTest, APatternEndsInAnOperator) {
    Text pattern;
    pattern.any();
    auto* node = op("abs", {x})->producer();
    EXPECT_THROW((void)pattern.match(node), InternalError);
}

}  // namespace

}  // namespace refactor::graph_topo
