#include "kernel/ops/vision.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

Tensor random_grid(Dims dims, std::mt19937& random) {
    auto grid = random_f32(dims, random, 0.8f);
    // Places far outside, and some that are none.
    auto n = grid.desc.count();
    if (n > 9) grid.as<float>()[n / 3] = 1e30f, grid.as<float>()[n / 2] = std::nanf(""), grid.as<float>()[n - 1] = -50;
    return grid;
}

TEST(GridSample, TapsAgreeWithTheReference) {
    std::mt19937 random(seed_of(32));
    struct Case {
        Dims x, grid;
    };
    Case const cases[]{{{2, 5, 7, 9}, {2, 31, 33, 2}},
                       {{1, 3, 1, 1}, {1, 4, 5, 2}},
                       {{1, 2, 13}, {1, 700, 1}},
                       {{2, 3, 4, 5, 6}, {2, 5, 3, 7, 3}},
                       {{1, 3, 4, 4}, {1, 0, 5, 2}}};
    for (auto const& c : cases)
        for (int mode = 0; mode < 3; ++mode)
            for (int padding = 0; padding < 3; ++padding)
                for (bool align : {false, true}) {
                    GridSampleInfo info{static_cast<GridMode>(mode), static_cast<GridPadding>(padding), align};
                    Dims y{c.x[0], c.x[1]};
                    for (size_t i = 1; i + 1 < c.grid.size(); ++i) y.push_back(c.grid[i]);
                    // Sums of at most 64 terms whose weights add up to 4 at most.
                    auto others = check_candidates(info, {random_f32(c.x, random), random_grid(c.grid, random)},
                                                   {Tensor(DataType::F32, y)}, {64 * 4 * 6e-8, 0});
                    EXPECT_EQ(others, info.mode == GridMode::Linear && cpu_features().isa >= Isa::Avx2 ? 2 : 1);
                }
}

TEST(GridSample, NearestMovesAnyType) {
    std::vector<Tensor> in{Tensor::of<uint8_t>(DataType::Bool, {1, 1, 2, 2}, {1, 0, 0, 1}),
                           Tensor::of<float>(DataType::F32, {1, 1, 3, 2}, {-1, -1, 0.9f, 0.9f, 3, 3})};
    std::vector<Tensor> out{Tensor(DataType::Bool, {1, 1, 1, 3})};
    auto operands = operands_of(in), results = operands_of(out);
    auto request = request_of(operands, results, Isa::Scalar, 1);
    auto found = candidates(GridSampleInfo{GridMode::Nearest}, request);
    ASSERT_EQ(found.kernels.size(), 1u);
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels[0], in, out, packs, pool);
    EXPECT_EQ(out[0].as<uint8_t>()[0], 1);
    EXPECT_EQ(out[0].as<uint8_t>()[1], 1);
    EXPECT_EQ(out[0].as<uint8_t>()[2], 0);
    found = candidates(GridSampleInfo{GridMode::Linear}, request);
    EXPECT_TRUE(found.kernels.empty());
    EXPECT_EQ(found.rejections.back().reason, "grid_sample:cpu:reference: interpolation of bool");
}

TEST(GridSample, RefusesSizesThatDoNotFit) {
    std::vector<Tensor> in{Tensor(DataType::F32, {1, 2, 3, 3}), Tensor(DataType::F32, {1, 4, 4, 3})};
    std::vector<Tensor> out{Tensor(DataType::F32, {1, 2, 4, 4})};
    auto operands = operands_of(in), results = operands_of(out);
    PackCache packs;
    for (auto const& kernel : candidates(GridSampleInfo{}, request_of(operands, results, Isa::Scalar, 1)).kernels) {
        TensorDesc const *inputs[]{&in[0].desc, &in[1].desc}, *outputs[]{&out[0].desc};
        auto task = kernel->bind({inputs, outputs, {}, packs, 1});
        ASSERT_FALSE(task.ok());
        EXPECT_EQ(task.error().reason, "input (1, 2, 3, 3), grid (1, 4, 4, 3), output (1, 2, 4, 4)");
    }
}

}  // namespace
}  // namespace refactor::kernel::test
