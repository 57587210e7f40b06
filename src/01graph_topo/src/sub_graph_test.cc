#include "graph_topo/sub_graph.h"

#include "common/error.h"
#include "random_graph_test.h"

#include <set>

#include <gtest/gtest.h>

namespace refactor::graph_topo {

namespace {

/// No path leaves and returns, by the definition: no outside node is both reachable from and able to reach the inside.
bool convex_by_definition(GraphTopo const& topo, SubGraph const& part) {
    auto reach = test::reachability(topo);
    for (NodeIdx outside = 0; outside < topo.node_count(); ++outside) {
        if (part.contains(outside)) continue;
        bool after = false, before = false;
        for (auto node : part.nodes()) after |= reach[node][outside], before |= reach[outside][node];
        if (after && before) return false;
    }
    return true;
}

TEST(SubGraph, KnowsItsBorder) {
    test::TextBuilder builder;
    builder.global_inputs = {"x"}, builder.sources = {"w"};
    builder.add("a", 0, {"x", "w"}, {"p"});
    builder.add("b", 1, {"p", "", "x", "w"}, {"q", "unused"});
    builder.add("c", 2, {"q", "p"}, {"y"});
    builder.global_outputs = {"y", "q"};
    auto built = std::move(builder).build();
    ASSERT_TRUE(built.ok());
    auto name = [&](std::vector<EdgeIdx> const& edges) {
        std::string text;
        for (auto edge : edges) text += built->edge_keys[edge] + ' ';
        return text;
    };
    SubGraph part(built->graph.topo, {1});
    EXPECT_EQ(name(part.inputs()), "p x ");
    EXPECT_EQ(name(part.outputs()), "q ");
    EXPECT_EQ(name(part.sources()), "w ");
    EXPECT_TRUE(part.is_convex());
    EXPECT_FALSE(SubGraph(built->graph.topo, {2, 0}).is_convex());
    auto extract = part.extract();
    EXPECT_EQ(extract.nodes, std::vector<NodeIdx>{1});
    EXPECT_EQ(extract.topo.inputs(0)[1], kNoEdge);
    EXPECT_EQ(built->edge_keys[extract.edges[extract.topo.outputs(0)[1]]], "unused");
    EXPECT_THROW(SubGraph(built->graph.topo, {1, 1}), InternalError);
    EXPECT_THROW(SubGraph(built->graph.topo, {3}), InternalError);
}

TEST(SubGraph, ExtractsKeepTheConnections) {
    for (uint32_t seed = 0; seed < 200; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        auto built = test::random_graph(random, {.nodes = 20}).build();
        ASSERT_TRUE(built.ok());
        auto const& topo = built->graph.topo;
        std::vector<NodeIdx> nodes;
        for (NodeIdx node = 0; node < topo.node_count(); ++node)
            if (random() % 3 == 0) nodes.push_back(node);
        std::shuffle(nodes.begin(), nodes.end(), random);
        SubGraph part(topo, nodes);
        EXPECT_EQ(part.is_convex(), convex_by_definition(topo, part));
        auto extract = part.extract();
        ASSERT_EQ(extract.topo.node_count(), nodes.size());
        EXPECT_EQ(std::set<EdgeIdx>(extract.edges.begin(), extract.edges.end()).size(), extract.edges.size());
        auto whole = [&](EdgeIdx edge) { return edge == kNoEdge ? kNoEdge : extract.edges[edge]; };
        for (NodeIdx node = 0; node < nodes.size(); ++node) {
            auto original = topo.inputs(extract.nodes[node]);
            for (size_t slot = 0; slot < original.size(); ++slot)
                EXPECT_EQ(whole(extract.topo.inputs(node)[slot]), original[slot]);
            for (size_t slot = 0; slot < topo.outputs(extract.nodes[node]).size(); ++slot)
                EXPECT_EQ(whole(extract.topo.outputs(node)[slot]), topo.outputs(extract.nodes[node])[slot]);
        }
        for (size_t i = 0; i < part.inputs().size(); ++i)
            EXPECT_EQ(whole(extract.topo.global_inputs()[i]), part.inputs()[i]);
        for (size_t i = 0; i < part.outputs().size(); ++i)
            EXPECT_EQ(whole(extract.topo.global_outputs()[i]), part.outputs()[i]);
    }
}

}  // namespace

}  // namespace refactor::graph_topo
