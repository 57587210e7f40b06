#include "graph_topo/partition.h"

#include "common/error.h"
#include "graph_topo/sub_graph.h"
#include "random_graph_test.h"

#include <set>

#include <gtest/gtest.h>

namespace refactor::graph_topo {

namespace {

void expect_legal(GraphTopo const& topo, std::span<uint32_t const> colours, Partitioning const& parts) {
    ASSERT_EQ(parts.part_of.size(), topo.node_count());
    ASSERT_EQ(parts.parts.size(), parts.size());
    size_t nodes = 0;
    for (uint32_t part = 0; part < parts.size(); ++part) {
        auto row = parts.parts[part];
        nodes += row.size();
        EXPECT_FALSE(row.empty());
        EXPECT_TRUE(std::is_sorted(row.begin(), row.end()));
        for (auto node : row) {
            EXPECT_EQ(parts.part_of[node], part);
            EXPECT_EQ(colours[node], parts.colours[part]);
        }
        EXPECT_TRUE(SubGraph(topo, {row.begin(), row.end()}).is_convex());
        if (part) {
            EXPECT_NE(parts.colours[part], parts.colours[part - 1]);
        }
    }
    EXPECT_EQ(nodes, topo.node_count());
    for (EdgeIdx edge = 0; edge < topo.edge_count(); ++edge)
        for (auto use : topo.consumers(edge)) {
            auto from = topo.producer(edge).node;
            EXPECT_TRUE(from == kNoNode || parts.part_of[from] <= parts.part_of[use.node]);
        }
}

/// The fewest stays of any legal order, by trying all sets of nodes that can have run (at most 2^nodes).
size_t fewest_parts(GraphTopo const& topo, std::span<uint32_t const> colours) {
    auto count = topo.node_count();
    std::vector<uint32_t> needs(count);
    for (NodeIdx node = 0; node < count; ++node)
        for (auto edge : topo.inputs(node))
            if (edge != kNoEdge && topo.producer(edge).node != kNoNode) needs[node] |= 1u << topo.producer(edge).node;
    std::set<uint32_t> done{0};
    for (size_t stays = 0;; ++stays) {
        if (done.count((1u << count) - 1)) return stays;
        std::set<uint32_t> next;
        for (auto set : done)
            for (uint32_t colour = 0; colour < 3; ++colour) {
                auto grown = set;
                for (NodeIdx node = 0; node < count; ++node)  // node order is topological: one pass takes all
                    if (colours[node] == colour && (needs[node] & ~grown) == 0) grown |= 1u << node;
                next.insert(grown);
            }
        done = std::move(next);
    }
}

TEST(Partition, ResidualGraphThatDefeatsTheCommonAncestorRule) {
    test::TextBuilder builder;
    builder.global_inputs = {"x"};
    builder.add("y0", 0, {"x"}, {"e0"});
    builder.add("a", 0, {"e0"}, {"e1"});
    builder.add("b", 0, {"e1"}, {"e2"});
    builder.add("d", 0, {"e2", "e1"}, {"e3"});
    builder.global_outputs = {"e3"};
    auto built = std::move(builder).build();
    ASSERT_TRUE(built.ok());
    constexpr uint32_t X = 0, Y = 1;
    uint32_t colours[] = {Y, X, Y, X};
    auto parts = partition_convex(built->graph.topo, colours);
    expect_legal(built->graph.topo, colours, parts);
    EXPECT_EQ(parts.part_of, (std::vector<uint32_t>{0, 1, 2, 3}));
    EXPECT_FALSE(SubGraph(built->graph.topo, {1, 3}).is_convex());
}

TEST(Partition, OneColourIsOnePart) {
    std::mt19937 random(1);
    auto built = test::random_graph(random, {.nodes = 50}).build();
    ASSERT_TRUE(built.ok());
    std::vector<uint32_t> colours(50, 2);
    auto parts = partition_convex(built->graph.topo, colours);
    EXPECT_EQ(parts.size(), 1u);
    expect_legal(built->graph.topo, colours, parts);
    EXPECT_EQ(partition_convex(GraphTopo{}, {}).size(), 0u);
    EXPECT_THROW(partition_convex(built->graph.topo, std::vector<uint32_t>(3)), InternalError);
}

TEST(Partition, RandomGraphs) {
    for (uint32_t seed = 0; seed < 300; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        auto nodes = 1 + seed % 11, kinds = 2 + seed % 2;
        auto built = test::random_graph(random, {.nodes = nodes}).build();
        ASSERT_TRUE(built.ok());
        std::vector<uint32_t> colours(nodes);
        for (auto& colour : colours) colour = static_cast<uint32_t>(random() % kinds);
        auto parts = partition_convex(built->graph.topo, colours);
        expect_legal(built->graph.topo, colours, parts);
        auto fewest = fewest_parts(built->graph.topo, colours);
        if (kinds == 2) {
            EXPECT_EQ(parts.size(), fewest);
        }
        EXPECT_GE(parts.size(), fewest);
    }
}

}  // namespace

}  // namespace refactor::graph_topo
