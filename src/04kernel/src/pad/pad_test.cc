#include "conv/test_harness.h"
#include "kernel/ops/movement.h"

namespace refactor::kernel {
namespace {

using namespace test;

struct Padding {
    Dims dims, begins, ends;
};

/// Y of the first kernel for X in `layout` (or of the last), or why there is none.
std::pair<Tensor, std::string> padded(PadMode mode, Tensor const& x, Tensor const& value, Padding const& padding,
                                      Layout layout, ThreadPool& pool, bool last = false) {
    std::vector<Argument> inputs{argument(x, layout), argument(value, Layout::Plain)};
    std::vector<Operand> operands{operand_of(inputs[0]), operand_of(inputs[1])};
    operands[1].dims = inputs[1].desc.dims = {};
    Operand y;
    y.dtype = inputs[0].desc.dtype, y.layout = layout, y.dims = x.dims;
    for (size_t i = 0; i < y.dims.size(); ++i) y.dims[i] += padding.begins[i] + padding.ends[i];
    auto found = candidates(PadInfo{mode}, {operands, {&y, 1}, "cpu", Isa::Scalar, pool.threads()});
    if (found.kernels.empty()) return {x, "no kernel"};
    Bench bench(*(last ? found.kernels.back() : found.kernels.front()), inputs, y, pool,
                {padding.begins.begin(), padding.begins.end()});
    if (!bench.task) return {x, bench.rejection};
    bench.run();
    return {loaded(bench.output(), y.dims, layout), {}};
}

std::vector<Padding> const kPaddings{{{2, 13, 5, 4}, {0, 0, 1, 2}, {0, 0, 3, 0}},
                                     {{1, 16, 9}, {0, 0, 4}, {0, 0, 8}},
                                     {{2, 5, 3, 4, 2}, {0, 0, 2, 0, 1}, {0, 0, 0, 1, 1}},
                                     {{2, 72, 4, 3}, {0, 0, 2, 1}, {0, 0, 1, 1}},
                                     {{1, 24, 6, 7}, {0, 0, -1, 2}, {0, 0, 1, -3}}};

TEST(Pad, BlockedLayoutsAgreeWithThePlainOne) {
    std::mt19937 rng(23);
    auto value = Tensor::random({1}, rng);
    value.round_to_bf16();
    for (auto mode : {PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap})
        for (auto const& padding : kPaddings)
            for (int threads : {1, 3}) {
                ThreadPool pool(threads);
                auto x = Tensor::random(padding.dims, rng);
                x.round_to_bf16();
                auto [expected, failure] = padded(mode, x, value, padding, Layout::Plain, pool);
                ASSERT_EQ(failure, "");
                for (auto layout : {Layout::Blocked8, Layout::Blocked16, Layout::Blocked32}) {
                    auto [actual, reason] = padded(mode, x, value, padding, layout, pool);
                    ASSERT_EQ(reason, "");
                    ASSERT_EQ(actual.values, expected.values)
                        << dims_text(padding.dims) << " " << static_cast<int>(mode);
                }
            }
}

/// What nothing is added to becomes part of the elements, or of what is filled.
TEST(Pad, LastAxesThatStayAndLongEdges) {
    std::mt19937 rng(29);
    auto value = Tensor::random({1}, rng);
    for (auto mode : {PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap})
        for (auto const& padding : std::vector<Padding>{{{5, 7, 2}, {0, 3, 0}, {2, 4, 0}},
                                                        {{9, 4}, {3, 0}, {5, 0}},
                                                        {{6, 3}, {1, 0}, {2, 0}},
                                                        {{3, 40}, {2, 35}, {0, 39}},
                                                        {{2, 3, 300}, {1, 1, 0}, {1, 2, 0}},
                                                        {{2100, 2}, {2, 0}, {3, 0}},
                                                        {{3, 1100, 5}, {1, -2, 0}, {0, 3, 0}}})
            for (int threads : {1, 3}) {
                ThreadPool pool(threads);
                auto x = Tensor::random(padding.dims, rng);
                auto [actual, failure] = padded(mode, x, value, padding, Layout::Plain, pool);
                ASSERT_EQ(failure, "");
                auto [expected, other] = padded(mode, x, value, padding, Layout::Plain, pool, true);
                ASSERT_EQ(other, "");
                ASSERT_EQ(actual.values, expected.values) << dims_text(padding.dims) << " " << static_cast<int>(mode);
            }
}

/// Axes of one element, and neighbours that nothing is added to, in front, between and behind, and rows too long to be
/// one.
TEST(Pad, RowsOfSeveralAxesAgreeWithTheReference) {
    std::mt19937 rng(25);
    ThreadPool pool(2);
    auto value = Tensor::random({1}, rng);
    std::vector<Padding> const paddings{{{1, 7, 9, 1}, {0, 0, 3, 0}, {0, 0, 4, 0}},
                                        {{2, 3, 4, 5}, {0, 2, 0, 0}, {0, 1, 0, 0}},
                                        {{2, 3, 4, 5}, {1, 0, 0, 0}, {1, 0, 0, 0}},
                                        {{3, 1, 4, 1, 5}, {0, 0, 2, 0, 0}, {2, 0, -1, 0, 0}},
                                        {{3, 1, 4}, {1, 1, 1}, {0, 2, 3}},
                                        {{2, 6, 4, 3}, {0, -2, 0, 0}, {0, -1, 0, 0}},
                                        {{2, 3, 70, 80}, {0, 2, 0, 0}, {0, 1, 0, 0}},
                                        {{1, 1, 6}, {0, 0, 5}, {0, 0, 0}}};
    for (auto mode : {PadMode::Constant, PadMode::Reflect, PadMode::Edge, PadMode::Wrap})
        for (auto const& padding : paddings) {
            auto x = Tensor::random(padding.dims, rng);
            auto [expected, failure] = padded(mode, x, value, padding, Layout::Plain, pool, true);
            ASSERT_EQ(failure, "");
            auto [actual, reason] = padded(mode, x, value, padding, Layout::Plain, pool);
            ASSERT_EQ(reason, "");
            ASSERT_EQ(actual.values, expected.values) << dims_text(padding.dims) << " " << static_cast<int>(mode);
        }
}

TEST(Pad, BlockedLayoutsRefuseOtherAxes) {
    std::mt19937 rng(24);
    ThreadPool pool(1);
    auto x = Tensor::random({1, 8, 3, 3}, rng), value = Tensor::random({1}, rng);
    auto reason = padded(PadMode::Constant, x, value, {{}, {0, 2, 0, 0}, {0, 0, 0, 0}}, Layout::Blocked8, pool).second;
    EXPECT_EQ(reason, "pads axis 1, which is none of the positions");
}

}  // namespace
}  // namespace refactor::kernel
