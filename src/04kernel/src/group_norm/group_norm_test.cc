#include "kernel/ops/reduce.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

// As for LayerNorm.
constexpr Tolerance kTolerance{2e-5, 2e-5};

TEST(GroupNorm, ReferenceNormalises) {
    std::vector<Tensor> inputs{Tensor::of<float>(DataType::F32, {1, 2, 2}, {1, 2, 3, 6}),
                               Tensor::of<float>(DataType::F32, {2}, {1, 2}),
                               Tensor::of<float>(DataType::F32, {2}, {0, 1})},
        outputs{Tensor(DataType::F32, {1, 2, 2})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(GroupNormInfo{1, 0.5f}, request_of(in, results, Isa::Scalar, 1));
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.back(), inputs, outputs, packs, pool);
    float const expected[]{-1, -0.5f, 1, 4};  // mean 3, variance 3.5
    for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(outputs[0].as<float>()[i], expected[i]);
}

TEST(GroupNorm, CandidatesAgree) {
    std::mt19937 random(seed_of(51));
    struct Case {
        Dims dims;
        int64_t groups;
    };
    Case const cases[]{{{2, 6, 7, 5}, 3},    {{2, 6, 7, 5}, 0}, {{3, 8}, 2},
                       {{1, 32, 33, 31}, 8}, {{2, 5, 1}, 1},    {{2, 3, 1001}, 0}};
    for (auto const& c : cases) {
        auto channels = c.dims[1];
        auto x = random_f32(c.dims, random);
        for (int64_t i = 0; i < x.desc.count(); ++i) x.as<float>()[i] += 2;
        check_floats(GroupNormInfo{c.groups, 1e-4f},
                     {x, random_f32({channels}, random), random_f32({channels}, random)}, {x}, kTolerance);
    }
}

}  // namespace
}  // namespace refactor::kernel::test
