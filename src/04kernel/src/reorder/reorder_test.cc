#include "common/cpu_features.h"
#include "conv/test_harness.h"

namespace refactor::kernel {
namespace {

using namespace test;

TEST(Reorder, AllCandidatesKeepValuesAndZeroPadding) {
    auto seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    std::mt19937 rng(seed);
    auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
    constexpr Layout kLayouts[] = {Layout::Plain, Layout::Blocked8, Layout::Blocked16};
    ThreadPool pool(2);
    for (int round = 0; round < 40; ++round) {
        Dims dims{pick(1, 3), pick(1, 40)};
        for (int64_t rank = pick(0, 3); rank > 0; --rank) dims.push_back(pick(1, 47));
        if (dims.size() == 5) dims[2] = 2;
        auto t = Tensor::random(dims, rng);
        for (auto from : kLayouts)
            for (auto to : kLayouts) {
                SCOPED_TRACE(dims_text(dims) + " " + std::to_string(block_of(from)) + " to " +
                             std::to_string(block_of(to)));
                auto x = argument(t, from);
                auto operand = operand_of(x);
                Operand y;
                y.dtype = DataType::F32, y.layout = to, y.dims = dims;
                auto found = candidates(ReorderInfo{}, {{&operand, 1}, {&y, 1}, "cpu", cpu_features().isa, 2});
                ASSERT_FALSE(found.kernels.empty());
                for (auto const& kernel : found.kernels) {
                    SCOPED_TRACE(kernel->id());
                    Bench bench(*kernel, {x}, y, pool);
                    ASSERT_TRUE(bench.task) << bench.rejection;
                    bench.run();
                    ASSERT_EQ(loaded(bench.output(), dims, to).values, t.values);
                }
            }
    }
}

}  // namespace
}  // namespace refactor::kernel
