#include "passes/pool_means.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/reduce.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using test::compare_passes;
using test::TestGraph;

int64_t count(std::vector<std::string> const& types, char const* type) {
    return std::count(types.begin(), types.end(), type);
}

Shape shape_of(Dims const& dims) { return {dims.begin(), dims.end()}; }

/// [1, 24, spatial…] convolved, then reduced.
std::vector<std::string> types_after(kernel::ReduceKind kind, Dims const& axes, Dims const& spatial, Dims const& y) {
    TestGraph g(7);
    Dims x{1, 24}, taps{24, 24}, kept{1, 24};
    for (auto size : spatial) x.push_back(size), taps.push_back(1), kept.push_back(size);
    kernel::ConvInfo conv;
    for (size_t i = 0; i < spatial.size(); ++i)
        conv.window.strides.push_back(1), conv.window.dilations.push_back(1), conv.window.pads_begin.push_back(0),
            conv.window.pads_end.push_back(0);
    auto* image = g.add(conv, {g.input(shape_of(x)), g.weights(taps)}, shape_of(kept));
    g.output(g.add(kernel::ReduceInfo{kind, axes}, {image}, shape_of(y)));
    return compare_passes(g, {x}, 1e-5);
}

TEST(PoolMeans, ReadsBlockedLayouts) {
    for (auto const& [axes, spatial] : {std::pair<Dims, Dims>{{2}, {40}}, {{2, 3}, {6, 7}}, {{2, 3, 4}, {3, 4, 5}}}) {
        Dims kept{1, 24};
        kept.resize(2 + axes.size(), 1);
        for (auto const& y : {kept, Dims{1, 24}})
            for (auto kind : {kernel::ReduceKind::Mean, kernel::ReduceKind::Max}) {
                auto types = types_after(kind, axes, spatial, y);
                EXPECT_EQ(count(types, "GlobalPool"), 1) << axes.size() << " axes, result of rank " << y.size();
                EXPECT_EQ(count(types, "Reduce"), 0) << axes.size() << " axes, result of rank " << y.size();
            }
    }
}

TEST(PoolMeans, LeavesOtherReductionsAlone) {
    struct Case {
        kernel::ReduceKind kind;
        Dims axes, y;
    };
    using enum kernel::ReduceKind;
    for (auto const& c : {Case{Min, {2, 3}, {1, 24, 1, 1}}, Case{Mean, {1, 2, 3}, {1, 1, 1, 1}},
                          Case{Mean, {3}, {1, 24, 6, 1}}, Case{Mean, {1}, {1, 1, 6, 7}}}) {
        auto types = types_after(c.kind, c.axes, {6, 7}, c.y);
        EXPECT_EQ(count(types, "Reduce"), 1) << c.axes.size();
        EXPECT_EQ(count(types, "GlobalPool"), 0) << c.axes.size();
    }
}

}  // namespace

}  // namespace refactor::computation
