#include "graph_topo/builder.h"

#include "graph_topo/searcher.h"
#include "random_graph_test.h"

#include <chrono>
#include <set>

#include <gtest/gtest.h>

namespace refactor::graph_topo {

namespace {

using test::TextBuilder;
using Strings = std::vector<std::string>;

TEST(Builder, KeepsTheOrderOfALegalDescription) {
    TextBuilder builder;
    builder.global_inputs = {"x"}, builder.sources = {"w"};
    builder.add("b", 0, {"x", "", "w"}, {"p"});
    builder.add("a", 1, {"x"}, {"q", "r"});
    builder.add("c", 2, {"q", "p", "p"}, {"y"});
    builder.global_outputs = {"y", "r", "y"};
    builder.edges = {{"w", "weight"}, {"unknown", "dropped"}};
    auto built = std::move(builder).build();
    ASSERT_TRUE(built.ok()) << built.error().to_string();
    EXPECT_EQ(built->node_keys, (Strings{"b", "a", "c"}));
    EXPECT_EQ(built->edge_keys, (Strings{"x", "w", "p", "q", "r", "y"}));
    auto const& topo = built->graph.topo;
    EXPECT_EQ(topo.inputs(0)[1], kNoEdge);
    EXPECT_EQ(topo.producer(4), (Port{1, 1}));
    EXPECT_EQ(topo.producer(1).node, kNoNode);
    ASSERT_EQ(topo.consumers(2).size(), 2u);
    EXPECT_EQ(topo.consumers(2)[1], (Port{2, 2}));
    EXPECT_EQ(built->graph.edges[1], "weight");
    EXPECT_EQ(topo.global_outputs().size(), 3u);
}

TEST(Builder, MovesAProducerBeforeItsReader) {
    TextBuilder builder;
    builder.add("last", 0, {"b"}, {"c"});
    builder.add("free", 1, {}, {"z"});
    builder.add("middle", 2, {"a"}, {"b"});
    builder.add("first", 3, {}, {"a"});
    builder.global_outputs = {"c"};
    auto built = std::move(builder).build();
    ASSERT_TRUE(built.ok());
    EXPECT_EQ(built->node_keys, (Strings{"first", "middle", "last", "free"}));
}

TEST(Builder, GivesAnOmittedOutputAnEdgeOfItsOwn) {
    TextBuilder builder;
    builder.add("n", 0, {}, {"", "y", ""});
    builder.global_outputs = {"y"};
    auto built = std::move(builder).build();
    ASSERT_TRUE(built.ok());
    auto outputs = built->graph.topo.outputs(0);
    EXPECT_EQ(std::set<EdgeIdx>(outputs.begin(), outputs.end()).size(), 3u);
}

TEST(Builder, ReportsAllProblemsAtOnce) {
    TextBuilder builder;
    builder.global_inputs = {"x"}, builder.sources = {"w"};
    builder.add("a", 0, {"q", "x"}, {"p"});
    builder.add("b", 0, {"p"}, {"q"});
    builder.add("c", 0, {"q", "d"}, {"e"});  // below one cycle and part of another
    builder.add("d", 0, {"e", "ghost"}, {"d"});
    builder.add("self", 0, {"s"}, {"s"});
    builder.add("f", 0, {"x"}, {"e", "w"});
    builder.global_outputs = {"nowhere", "p"};
    auto built = std::move(builder).build();
    ASSERT_FALSE(built.ok());
    auto const& error = built.error();
    ASSERT_EQ(error.cycles.size(), 3u) << error.to_string();
    EXPECT_EQ(error.cycles[0], (Strings{"b", "a"}));
    EXPECT_EQ(error.cycles[1], (Strings{"d", "c"}));
    EXPECT_EQ(error.cycles[2], (Strings{"self"}));
    ASSERT_EQ(error.missing_edges.size(), 1u);
    EXPECT_EQ(error.missing_edges[0].edge, "ghost");
    EXPECT_EQ(error.missing_edges[0].node, "d");
    EXPECT_EQ(error.missing_edges[0].slot, 1u);
    ASSERT_EQ(error.double_edges.size(), 2u);
    EXPECT_EQ(error.double_edges[0].edge, "w");
    EXPECT_TRUE(error.double_edges[0].global);
    EXPECT_EQ(error.double_edges[1].edge, "e");
    EXPECT_EQ(error.double_edges[1].nodes, (Strings{"c", "f"}));
    EXPECT_EQ(error.missing_outputs, (Strings{"nowhere"}));
    for (auto const* part : {"ghost", "nowhere", "\"b\" -> \"a\" -> \"b\"", "produced more than once"})
        EXPECT_NE(error.to_string().find(part), std::string::npos) << error.to_string();
}

TEST(Builder, AnInputThatIsAlsoASourceIsProducedTwice) {
    TextBuilder builder;
    builder.global_inputs = {"x"}, builder.sources = {"x"};
    auto built = std::move(builder).build();
    ASSERT_FALSE(built.ok());
    ASSERT_EQ(built.error().double_edges.size(), 1u);
    EXPECT_TRUE(built.error().double_edges[0].nodes.empty());
}

TEST(Builder, RandomGraphsAgreeWithTheirDescription) {
    for (uint32_t seed = 0; seed < 200; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        auto builder = test::random_graph(random, {.nodes = 1 + seed % 40});
        auto copy = builder, again = builder;
        auto built = std::move(builder).build();
        ASSERT_TRUE(built.ok()) << built.error().to_string();
        auto const& topo = built->graph.topo;
        for (NodeIdx node = 0; node < topo.node_count(); ++node) {
            auto const& item = *std::find_if(copy.nodes.begin(), copy.nodes.end(),
                                             [&](auto const& i) { return i.key == built->node_keys[node]; });
            EXPECT_EQ(item.node, built->graph.nodes[node]);
            ASSERT_EQ(topo.inputs(node).size(), item.inputs.size());
            for (uint32_t slot = 0; slot < item.inputs.size(); ++slot) {
                auto edge = topo.inputs(node)[slot];
                EXPECT_EQ(edge == kNoEdge ? "" : built->edge_keys[edge], item.inputs[slot]);
                if (edge == kNoEdge) continue;
                auto producer = topo.producer(edge).node;
                EXPECT_TRUE(producer == kNoNode || producer < node);
                auto uses = topo.consumers(edge);
                EXPECT_EQ(std::count(uses.begin(), uses.end(), Port{node, slot}), 1);
            }
        }
        EXPECT_EQ(std::move(again).build()->node_keys, built->node_keys);
    }
}

TEST(Builder, AClosedRandomGraphReportsTrueCycles) {
    for (uint32_t seed = 0; seed < 100; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        auto builder = test::random_graph(random, {.nodes = 20});
        for (int i = 0; i < 3; ++i) {
            auto& reader = builder.nodes[random() % 20];
            reader.inputs.push_back(builder.nodes[random() % 20].outputs[0]);
        }
        auto copy = builder;
        auto built = std::move(builder).build();
        if (built.ok()) continue;
        std::set<std::string> met;
        for (auto const& cycle : built.error().cycles) {
            for (size_t i = 0; i < cycle.size(); ++i) {
                EXPECT_TRUE(met.insert(cycle[i]).second) << "a node is in two reported cycles";
                auto item = [&](std::string const& key) -> auto const& {
                    return *std::find_if(copy.nodes.begin(), copy.nodes.end(),
                                         [&](auto const& n) { return n.key == key; });
                };
                auto const& outputs = item(cycle[i]).outputs;
                auto const& inputs = item(cycle[(i + 1) % cycle.size()]).inputs;
                EXPECT_TRUE(std::any_of(inputs.begin(), inputs.end(), [&](auto const& e) {
                    return std::find(outputs.begin(), outputs.end(), e) != outputs.end();
                }));
            }
        }
    }
}

TEST(Builder, ALongChainIsFastInBothDirections) {
    constexpr size_t kNodes = 100'000;
    for (bool reversed : {false, true}) {
        TextBuilder builder;
        builder.global_inputs = {"0"};
        for (size_t i = 0; i < kNodes; ++i)
            builder.add(std::to_string(i), 0, {std::to_string(i)}, {std::to_string(i + 1)});
        builder.global_outputs = {std::to_string(kNodes)};
        if (reversed) std::reverse(builder.nodes.begin(), builder.nodes.end());
        auto start = std::chrono::steady_clock::now();
        auto built = std::move(builder).build();
        std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        ASSERT_TRUE(built.ok());
        EXPECT_EQ(built->node_keys.front(), "0");
        EXPECT_LT(seconds.count(), 1.0);
        RecordProperty(reversed ? "reversed_ms" : "ms", static_cast<int>(seconds.count() * 1000));
    }
}

TEST(Searcher, AgreesWithTheEdges) {
    for (uint32_t seed = 0; seed < 100; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        auto built = test::random_graph(random, {.nodes = 25}).build();
        ASSERT_TRUE(built.ok());
        auto const& topo = built->graph.topo;
        Searcher searcher(topo);
        std::vector<std::set<NodeIdx>> before(topo.node_count()), after(topo.node_count());
        for (EdgeIdx edge = 0; edge < topo.edge_count(); ++edge)
            for (auto use : topo.consumers(edge))
                if (auto from = topo.producer(edge).node; from != kNoNode)
                    before[use.node].insert(from), after[from].insert(use.node);
        for (NodeIdx node = 0; node < topo.node_count(); ++node) {
            auto list = [](std::set<NodeIdx> const& set) { return std::vector<NodeIdx>(set.begin(), set.end()); };
            auto copy = [](std::span<NodeIdx const> span) { return std::vector<NodeIdx>(span.begin(), span.end()); };
            EXPECT_EQ(copy(searcher.predecessors(node)), list(before[node]));
            EXPECT_EQ(copy(searcher.successors(node)), list(after[node]));
        }
        auto reach = test::reachability(topo);
        auto live = live_nodes(topo);
        for (NodeIdx node = 0; node < topo.node_count(); ++node) {
            bool expected = false;
            for (auto edge : topo.global_outputs()) {
                auto producer = topo.producer(edge).node;
                expected |= producer != kNoNode && (producer == node || reach[node][producer]);
            }
            EXPECT_EQ(live[node], expected);
        }
    }
}

}  // namespace

}  // namespace refactor::graph_topo
