#include "passes/mix_heads.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using namespace test;

struct Case {
    Dims x, perm, back;
    int64_t results;
    bool trans_b = false, bias = false;
};

/// x permuted, multiplied by weights, maybe with a bias, and permuted back.
Types types_after(Case const& c, bool read_twice = false) {
    TestGraph g(17);
    Shape rows, shape;
    for (auto axis : c.perm) rows.push_back(c.x[static_cast<size_t>(axis)]);
    auto channels = c.x[static_cast<size_t>(c.perm.back())];
    auto* moved = g.add(kernel::TransposeInfo{c.perm}, {g.input({c.x.begin(), c.x.end()})}, rows);
    rows.back() = c.results;
    kernel::MatMulInfo info;
    info.trans_b = c.trans_b, info.alpha = 0.5f, info.epilogue.bias = c.bias;
    std::vector<EdgePtr> inputs{moved, g.weights(c.trans_b ? Dims{c.results, channels} : Dims{channels, c.results})};
    if (c.bias) inputs.push_back(g.weights({c.results}));
    auto* product = g.add(info, inputs, rows);
    for (auto axis : c.back) shape.push_back(rows[static_cast<size_t>(axis)]);
    g.output(g.add(kernel::TransposeInfo{c.back}, {product}, shape));
    if (read_twice) g.output(product);
    return compare_passes(g, {c.x}, 1e-6);
}

TEST(MixHeads, WeightsComeFromTheLeft) {
    for (auto const& c : {Case{{2, 4, 19, 23}, {0, 2, 3, 1}, {0, 3, 1, 2}, 4},
                          Case{{2, 3, 41}, {0, 2, 1}, {0, 2, 1}, 5, true}, Case{{16, 6, 7}, {1, 2, 0}, {2, 0, 1}, 2}}) {
        auto types = types_after(c);
        EXPECT_EQ(count(types, "MatMul"), 1);
        EXPECT_EQ(count(types, "Transpose"), 0);
    }
}

TEST(MixHeads, BiasIsAddedBehind) {
    for (auto const& c : {Case{{2, 4, 19, 23}, {0, 2, 3, 1}, {0, 3, 1, 2}, 6, true, true},
                          Case{{1, 8, 5, 11}, {0, 2, 3, 1}, {0, 3, 1, 2}, 3, false, true}}) {
        auto types = types_after(c);
        EXPECT_EQ(count(types, "Elementwise"), 1);
        EXPECT_EQ(count(types, "Transpose"), 0);
    }
}

TEST(MixHeads, LeavesManyChannelsAndOtherOrders) {
    EXPECT_GE(count(types_after({{2, 24, 19, 23}, {0, 2, 3, 1}, {0, 3, 1, 2}, 24}), "Transpose"), 1);
    EXPECT_GE(count(types_after({{2, 4, 19, 23}, {0, 3, 2, 1}, {0, 3, 1, 2}, 4}), "Transpose"), 1);
    EXPECT_GE(count(types_after({{2, 4, 19, 23}, {0, 2, 3, 1}, {0, 3, 2, 1}, 4}), "Transpose"), 1);
    EXPECT_GE(count(types_after({{2, 4, 19, 23}, {0, 2, 3, 1}, {0, 3, 1, 2}, 4}, true), "Transpose"), 1);
}

}  // namespace
}  // namespace refactor::computation
