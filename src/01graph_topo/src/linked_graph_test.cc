#include "graph_topo/linked_graph.h"

#include "common/error.h"
#include "random_graph_test.h"

#include <algorithm>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace refactor::graph_topo {

namespace {

using Linked = LinkedGraph<std::string, int>;

std::string names(NodeSnapshot<std::string, int> const& nodes) {
    std::string text;
    for (auto* node : nodes) text += node->value + ' ';
    return text;
}

TEST(LinkedGraph, EditsKeepLinks) {
    Linked graph;
    auto *x = graph.add_input(), *w = graph.add_source(7);
    auto* a = graph.insert("a", {x, w, x});
    auto* b = graph.insert("b", {a->output(), nullptr}, 2);
    graph.add_output(b->output(1));
    EXPECT_EQ(x->consumer_count(), 2u);
    EXPECT_EQ(a->output()->only_consumer(), b);
    EXPECT_EQ(b->input(1), nullptr);
    EXPECT_EQ(b->input(9), nullptr);
    graph.remove_input(a, 0);
    EXPECT_EQ(a->inputs().size(), 2u);
    EXPECT_EQ(a->input(1), x);
    graph.set_input(b, 1, w);
    graph.push_input(b, x);
    EXPECT_EQ(w->consumer_count(), 2u);
    EXPECT_EQ(graph.push_output(a, 5)->slot(), 1u);
    EXPECT_TRUE(graph.verify().empty());
    graph.replace_all_uses(b->output(1), x);
    EXPECT_EQ(graph.outputs()[0], x);
    EXPECT_FALSE(b->output(1)->is_output());
    EXPECT_EQ(graph.erase_dead(), 2u);
    EXPECT_EQ(graph.node_count(), 0u);
    EXPECT_EQ(w->use_count(), 0u);
    EXPECT_TRUE(graph.verify().empty());
}

TEST(LinkedGraph, OrderFollowsInsertionWhereLegal) {
    Linked graph;
    auto* x = graph.add_input();
    auto* a = graph.insert("a", {x});
    auto* b = graph.insert("b", {a->output()});
    graph.insert("c", {b->output()});
    auto* late = graph.insert("late", {a->output()});
    graph.set_input(b, 0, late->output());
    EXPECT_EQ(names(graph.topological()), "a late b c ");
    EXPECT_EQ(names(graph.topological().reversed()), "c b late a ");
}

TEST(LinkedGraph, SnapshotsSurviveEdits) {
    Linked graph;
    auto* edge = graph.add_input();
    for (int i = 0; i < 100; ++i) edge = graph.insert(std::to_string(i), {edge})->output();
    graph.add_output(edge);
    size_t visited = 0;
    for (auto* node : graph.topological()) {
        ASSERT_TRUE(node->alive());
        ++visited;
        if (auto* next = node->output()->only_consumer()) {
            graph.insert("side", {node->output()});
            graph.replace_all_uses(next->output(), node->output());
            graph.erase(next);
        }
    }
    EXPECT_EQ(visited, 50u);
    EXPECT_TRUE(graph.verify().empty());
    EXPECT_EQ(graph.erase_dead(), 50u);
    EXPECT_EQ(graph.node_count(), 50u);
}

TEST(LinkedGraph, ErasingTheNodeInHandAndTheLastOnes) {
    Linked graph;
    auto* x = graph.add_input();
    for (int i = 0; i < 5; ++i) graph.insert(std::to_string(i), {x});
    for (auto* node : graph.topological()) graph.erase(node);
    EXPECT_EQ(graph.node_count(), 0u);
    auto* keep = graph.insert("keep", {x});
    auto* last = graph.insert("last", {x});
    std::string seen;
    for (auto* node : graph.topological()) {
        seen += node->value;
        if (node == keep) graph.erase(last);
    }
    EXPECT_EQ(seen, "keep");
}

TEST(LinkedGraph, AnEdgeSurvivesItsProducer) {
    Linked graph;
    auto* x = graph.add_input();
    auto* conv = graph.insert("conv", {x});
    auto* norm = graph.insert("norm", {conv->output()});
    auto* y = norm->output();
    y->value = 42;
    graph.add_output(y);
    graph.erase(norm);
    EXPECT_TRUE(y->alive());
    EXPECT_EQ(graph.verify().size(), 1u);
    auto* fused = graph.insert_producing("fused", {x}, {y});
    EXPECT_EQ(y->producer(), fused);
    EXPECT_EQ(graph.outputs()[0]->value, 42);
    EXPECT_TRUE(graph.verify().empty());
    auto* thief = graph.insert_producing("thief", {x}, {y});
    EXPECT_EQ(y->producer(), thief);
    EXPECT_NE(fused->output(), y);
    EXPECT_EQ(fused->output()->producer(), fused);
    EXPECT_EQ(graph.erase_unused(fused), 1u);
    EXPECT_EQ(graph.erase_unused(conv), 1u);
    EXPECT_TRUE(graph.verify().empty());
    EXPECT_THROW(graph.insert_producing("bad", {}, {x}), InternalError);
}

TEST(LinkedGraph, MisuseIsAnError) {
    Linked graph;
    auto* x = graph.add_input();
    auto* a = graph.insert("a", {x});
    auto* b = graph.insert("b", {a->output()});
    EXPECT_THROW(graph.set_input(b, 1, x), InternalError);
    EXPECT_THROW(graph.remove_input(b, 1), InternalError);
    EXPECT_THROW(graph.set_output(0, x), InternalError);
    auto* dead = b->output();
    graph.erase(b);
    EXPECT_FALSE(dead->alive());
    EXPECT_THROW(graph.erase(b), InternalError);
    EXPECT_THROW(graph.push_input(b, x), InternalError);
    EXPECT_THROW(graph.set_input(a, 0, dead), InternalError);
    EXPECT_THROW(graph.add_output(dead), InternalError);
    graph.collect();
    EXPECT_EQ(graph.node(1), nullptr);
    EXPECT_EQ(graph.node(0), a);
}

TEST(LinkedGraph, VerifyFindsCycles) {
    Linked graph;
    auto* x = graph.add_input();
    auto* a = graph.insert("a", {x});
    auto* b = graph.insert("b", {a->output()});
    graph.set_input(a, 0, b->output());
    auto problems = graph.verify();
    ASSERT_EQ(problems.size(), 1u);
    EXPECT_NE(problems[0].find("cycle through the nodes with the ids 1 0"), std::string::npos) << problems[0];
    EXPECT_THROW(graph.topological(), InternalError);
}

TEST(LinkedGraph, RoundTripOfRandomGraphs) {
    for (uint32_t seed = 0; seed < 100; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        auto built = test::random_graph(random, {.nodes = 30}).build();
        ASSERT_TRUE(built.ok());
        for (EdgeIdx i = 0; i < built->graph.edges.size(); ++i) built->graph.edges[i] = built->edge_keys[i];
        LinkedGraph<int, std::string> linked(built->graph);
        ASSERT_TRUE(linked.verify().empty());
        EXPECT_EQ(linked.node_count(), built->graph.nodes.size());
        auto flat = std::as_const(linked).sort(false);
        ASSERT_EQ(flat.nodes, built->graph.nodes);
        for (NodeIdx node = 0; node < flat.nodes.size(); ++node) {
            auto row = flat.topo.inputs(node), original = built->graph.topo.inputs(node);
            ASSERT_EQ(row.size(), original.size());
            for (size_t i = 0; i < row.size(); ++i)
                EXPECT_EQ(row[i] == kNoEdge ? "" : flat.edges[row[i]],
                          original[i] == kNoEdge ? "" : built->edge_keys[original[i]]);
        }
        auto erased = linked.erase_dead();
        auto again = std::move(linked).sort();
        EXPECT_EQ(again.nodes.size() + erased, flat.nodes.size());
        EXPECT_EQ(std::as_const(flat).topo.global_outputs().size(), again.topo.global_outputs().size());
    }
}

TEST(LinkedGraph, RandomEditsStaySound) {
    for (uint32_t seed = 0; seed < 60; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        Linked graph;
        std::vector<Linked::EdgePtr> base{graph.add_input(), graph.add_source()};
        graph.add_output(base[0]);
        for (int edit = 0; edit < 200; ++edit) {
            auto nodes = graph.topological().all();
            auto rank = nodes.empty() ? 0 : random() % nodes.size();
            // Edges made before `rank` may feed nodes from `rank` on without closing a cycle.
            auto pick = [&]() -> Linked::EdgePtr {
                if (!rank || random() % 4 == 0) return base[random() % base.size()];
                auto* node = nodes[random() % rank];
                return node->output(random() % node->outputs().size());
            };
            switch (nodes.empty() ? 0 : random() % 6) {
                case 0:
                    graph.insert("n", {pick(), pick()}, 1 + random() % 2);
                    break;
                case 1:
                    graph.push_input(nodes[rank], pick());
                    break;
                case 2:
                    if (!nodes[rank]->inputs().empty())
                        graph.set_input(nodes[rank], random() % nodes[rank]->inputs().size(), pick());
                    break;
                case 3:
                    if (!nodes[rank]->inputs().empty())
                        graph.remove_input(nodes[rank], random() % nodes[rank]->inputs().size());
                    break;
                case 4: {
                    auto* to = pick();
                    for (auto* edge : nodes[rank]->outputs()) graph.replace_all_uses(edge, to);
                    graph.erase(nodes[rank]);
                    break;
                }
                default:
                    graph.set_output(0, nodes[rank]->output());
                    break;
            }
            ASSERT_TRUE(graph.verify().empty()) << graph.verify().front();
            if (edit % 50 == 49) graph.collect();
        }
    }
}

}  // namespace

}  // namespace refactor::graph_topo
