#include "common/error.h"
#include "kernel/ops/vision.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

struct Run {
    std::vector<Tensor> in, out;

    void operator()(RoiAlignInfo const& info, int threads = 1) {
        auto operands = operands_of(in), results = operands_of(out);
        auto found = candidates(info, request_of(operands, results, Isa::Scalar, threads));
        ASSERT_EQ(found.kernels.size(), 1u);
        PackCache packs;
        ThreadPool pool(threads);
        run(*found.kernels[0], in, out, packs, pool);
    }
};

Run on(std::vector<float> const& rois, std::vector<int64_t> const& batch, Dims bins) {
    std::vector<float> x(2 * 3 * 4 * 5);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 20);
    auto n = static_cast<int64_t>(batch.size());
    return {{Tensor::of(DataType::F32, {2, 3, 4, 5}, x), Tensor::of(DataType::F32, {n, 4}, rois),
             Tensor::of(DataType::I64, {n}, batch)},
            {Tensor(DataType::F32, {n, 3, bins[0], bins[1]})}};
}

TEST(RoiAlign, AveragesALinearPictureAtTheMiddleOfTheRegion) {
    // x = 5 row + column: its mean over a region is its value in the middle.
    for (int threads : {1, 2}) {
        auto r = on({0, 0, 4, 2, 1, 1, 3, 3}, {0, 1}, {1, 1});
        r(RoiAlignInfo{false, false, 0, 1}, threads);
        for (int c = 0; c < 3; ++c) {
            EXPECT_FLOAT_EQ(r.out[0].as<float>()[c], 5 * 1 + 2);
            EXPECT_FLOAT_EQ(r.out[0].as<float>()[3 + c], 5 * 2 + 2);
        }
    }
}

TEST(RoiAlign, ManySamplesNeedNoTable) {
    auto few = on({0, 0, 4, 3}, {1}, {2, 2}), many = on({0, 0, 4, 3}, {1}, {2, 2});
    few(RoiAlignInfo{false, true, 2, 1}), many(RoiAlignInfo{false, true, 400, 1});
    // Both average the interpolated picture; finer samples see a little more of its rim.
    for (int i = 0; i < 12; ++i) EXPECT_NEAR(few.out[0].as<float>()[i], many.out[0].as<float>()[i], 0.5);
}

TEST(RoiAlign, TilesAgreeWithTheReference) {
    std::mt19937 random(seed_of(35));
    for (int64_t ratio : {0, 1, 2, 3, 70})
        for (bool half : {false, true})
            for (Dims bins : {Dims{7, 7}, Dims{3, 11}, Dims{14, 16}}) {
                if (ratio == 70 && bins[0] != 3) continue;
                RoiAlignInfo info{false, half, ratio, 0.5f};
                // Inside, over every edge, outside, of no extent, at the last column.
                std::vector<float> rois{3, 5, 40, 31, -20, -9, 17, 60, 70, 80, 200, 120, 8, 8, 8, 8, 83, 2, 87, 50};
                std::vector<Tensor> inputs{random_f32({2, 7, 33, 43}, random), Tensor::of(DataType::F32, {5, 4}, rois),
                                           Tensor::of(DataType::I64, {5}, std::vector<int64_t>{0, 1, 1, 0, 1})};
                // Coordinates up to 100 are rounded by 2^-18, which elements of up to 5 turn into differences.
                auto others = check_candidates(info, inputs, {Tensor(DataType::F32, {5, 7, bins[0], bins[1]})},
                                               {5 * 4 * 4e-6, 0});
                EXPECT_EQ(others, cpu_features().isa >= Isa::Avx2);
            }
}

TEST(RoiAlign, RefusesWhatDoesNotExist) {
    auto outside = on({0, 0, 1, 1}, {2}, {1, 1});
    EXPECT_THROW(outside(RoiAlignInfo{}), InvalidInput);
    auto endless = on({0, 0, 1e30f, 1}, {0}, {1, 1});
    EXPECT_THROW(endless(RoiAlignInfo{}), InvalidInput);
    auto none = on({std::nanf(""), 0, 1, 1}, {0}, {1, 1});
    EXPECT_THROW(none(RoiAlignInfo{}), InvalidInput);
}

}  // namespace
}  // namespace refactor::kernel::test
