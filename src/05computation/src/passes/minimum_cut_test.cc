#include "passes/minimum_cut.h"

#include <random>

#include <gtest/gtest.h>

namespace refactor::computation {

namespace {

struct TestArc {
    uint32_t from, to;
    double capacity;
};

double cut_price(std::vector<TestArc> const& arcs, std::vector<bool> const& side) {
    double price = 0;
    for (auto const& arc : arcs)
        if (side[arc.from] && !side[arc.to]) price += arc.capacity;
    return price;
}

double best_price(std::vector<TestArc> const& arcs, uint32_t vertices) {
    double best = MinimumCut::kUncuttable;
    for (uint32_t mask = 0; mask < 1u << (vertices - 2); ++mask) {
        std::vector<bool> side(vertices);
        side[MinimumCut::kSource] = true;
        for (uint32_t v = 2; v < vertices; ++v) side[v] = mask >> (v - 2) & 1;
        best = std::min(best, cut_price(arcs, side));
    }
    return best;
}

TEST(MinimumCut, EqualsExhaustiveSearchOnRandomGraphs) {
    for (uint32_t seed = 0; seed < 200; ++seed) {
        std::mt19937 random(seed);
        uint32_t vertices = 2 + random() % 9;
        std::vector<TestArc> arcs;
        for (uint32_t i = 0; i < 3 * vertices; ++i) {
            uint32_t from = random() % vertices, to = random() % vertices;
            if (from != to) arcs.push_back({from, to, static_cast<double>(random() % 100)});
        }
        MinimumCut cut;
        for (uint32_t v = 2; v < vertices; ++v) cut.add_vertex();
        for (auto const& arc : arcs) cut.add_arc(arc.from, arc.to, arc.capacity);
        auto side = cut.solve();
        ASSERT_TRUE(side[MinimumCut::kSource]) << "seed " << seed;
        ASSERT_FALSE(side[MinimumCut::kSink]) << "seed " << seed;
        EXPECT_EQ(cut_price(arcs, side), best_price(arcs, vertices)) << "seed " << seed;
    }
}

}  // namespace

}  // namespace refactor::computation
