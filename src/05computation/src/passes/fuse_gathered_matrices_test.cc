#include "passes/fuse_gathered_matrices.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using test::compare_passes;
using test::TestGraph;

constexpr int64_t kRows = 6, kMatrices = 3, kDepth = 20, kColumns = 33;

Shape shape_of(Dims const& dims) { return {dims.begin(), dims.end()}; }

EdgePtr indices(TestGraph& g, Dims const& dims) {
    std::vector<int64_t> values{2, 0, -1, 1, 0, 2};
    auto blob = mem_manager::Blob::copy_of(values.data(), values.size() * sizeof(int64_t));
    return g.model.graph.add_source({"indices", DataType::I64, shape_of(dims), {}, blob, false});
}

struct Case {
    bool gather_nd = false, matrices_first = false, trans_a = false, trans_b = false;
    int64_t axis = 0, row_count = 1;
    bool also_output = false, broadcast = false;
};

/// Node types of a product of rows with gathered matrices.
std::vector<std::string> types_after(Case const& c) {
    TestGraph g(11);
    auto [a, b] = c.matrices_first ? std::pair(kColumns, kDepth) : std::pair(kDepth, kColumns);
    if (c.matrices_first ? c.trans_a : c.trans_b) std::swap(a, b);
    Dims stack{kMatrices, a, b};
    if (c.axis == 1) std::swap(stack[0], stack[1]);
    auto* table = g.input(shape_of(stack));
    Shape gathered = shape_of({kRows, a, b});
    if (c.axis == 1) gathered = shape_of({a, kRows, b});
    auto* matrices = c.gather_nd ? g.add(kernel::GatherNDInfo{}, {table, indices(g, {kRows, 1})}, gathered)
                                 : g.add(kernel::GatherInfo{c.axis}, {table, indices(g, {kRows})}, gathered);
    if (c.axis == 1) matrices = g.add(kernel::TransposeInfo{{1, 0, 2}}, {matrices}, shape_of({kRows, a, b}));
    if (c.also_output) g.output(matrices);
    auto leading = c.broadcast ? 1 : kRows;
    bool column = c.matrices_first ? !c.trans_b : c.trans_a;
    Dims row = column ? Dims{leading, kDepth, c.row_count} : Dims{leading, c.row_count, kDepth};
    auto* rows = g.input(shape_of(row));
    kernel::MatMulInfo info;
    info.trans_a = c.trans_a, info.trans_b = c.trans_b;
    if (c.matrices_first)
        g.output(g.add(info, {matrices, rows}, shape_of({kRows, kColumns, c.row_count})));
    else
        g.output(g.add(info, {rows, matrices}, shape_of({kRows, c.row_count, kColumns})));
    return compare_passes(g, {stack, row}, 1e-6);
}

int64_t count(std::vector<std::string> const& types) { return std::count(types.begin(), types.end(), "GatherMatMul"); }

TEST(FuseGatheredMatrices, ReadsThemWhereTheyLie) {
    for (int bits = 0; bits < 16; ++bits) {
        auto types = types_after({bool(bits & 1), bool(bits & 2), bool(bits & 4), bool(bits & 8)});
        EXPECT_EQ(count(types), 1) << bits;
        EXPECT_EQ(types.size(), 1U) << bits;
    }
}

TEST(FuseGatheredMatrices, LeavesOtherProductsAlone) {
    for (auto const& c : {Case{.row_count = 2}, Case{.axis = 1}, Case{.also_output = true}, Case{.broadcast = true},
                          Case{.gather_nd = true, .matrices_first = true, .row_count = 3}})
        EXPECT_EQ(count(types_after(c)), 0);
}

}  // namespace
}  // namespace refactor::computation
