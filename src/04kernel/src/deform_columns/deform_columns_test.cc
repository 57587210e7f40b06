#include "kernel/ops/vision.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

TEST(DeformColumns, TapsAgreeWithTheReference) {
    std::mt19937 random(seed_of(33));
    for (int64_t groups : {1, 2})
        for (bool masked : {false, true}) {
            DeformColumnsInfo info;
            info.kernel = {3, 2}, info.groups = groups;
            info.window = {{2, 1}, {1, 2}, {1, 0}, {2, 1}};
            // (27 + 3 - 3) / 2 + 1 and (45 + 1 - 3) + 1
            Dims out{14, 44};
            auto offset = random_f32({2, groups * 12, out[0], out[1]}, random, 3);
            offset.as<float>()[5] = std::nanf(""), offset.as<float>()[77] = 1e30f, offset.as<float>()[78] = -1e30f;
            std::vector<Tensor> inputs{random_f32({2, 6, 27, 45}, random), offset};
            if (masked) inputs.push_back(random_f32({2, groups * 6, out[0], out[1]}, random));
            // Places up to 50 are rounded by 2^-18, and so are the weights of elements of up to 5.
            auto others =
                check_candidates(info, inputs, {Tensor(DataType::F32, {2, 36, out[0] * out[1]})}, {5 * 4 * 4e-6, 0});
            EXPECT_EQ(others, cpu_features().isa >= Isa::Avx2 ? 2 : 1);
        }
}

TEST(DeformColumns, WithoutOffsetsTheyAreThoseOfAConvolution) {
    DeformColumnsInfo info;
    info.kernel = {2, 2}, info.window = {{1, 1}, {1, 1}, {0, 0}, {0, 0}};
    std::vector<Tensor> in{Tensor::of<float>(DataType::F32, {1, 1, 2, 3}, {1, 2, 3, 4, 5, 6})};
    in.push_back(Tensor::of<float>(DataType::F32, {1, 8, 1, 2}, std::vector<float>(16)));
    std::vector<Tensor> out{Tensor(DataType::F32, {1, 4, 2})};
    auto operands = operands_of(in), results = operands_of(out);
    PackCache packs;
    ThreadPool pool(1);
    for (auto const& kernel : candidates(info, request_of(operands, results, Isa::Scalar, 1)).kernels) {
        run(*kernel, in, out, packs, pool);
        float const expected[]{1, 2, 2, 3, 4, 5, 5, 6};
        for (int i = 0; i < 8; ++i) EXPECT_EQ(out[0].as<float>()[i], expected[i]) << kernel->id() << " " << i;
    }
}

}  // namespace
}  // namespace refactor::kernel::test
