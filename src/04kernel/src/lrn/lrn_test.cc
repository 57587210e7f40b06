#include "kernel/ops/vision.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

TEST(Lrn, TilesAgreeWithTheReference) {
    std::mt19937 random(seed_of(31));
    Dims const shapes[]{{2, 7, 5, 67}, {1, 64, 3}, {3, 5, 1, 1}, {1, 3, 16, 16}, {2, 4}, {1, 0, 5}};
    for (auto const& dims : shapes)
        for (int64_t size : {1, 2, 5, 64})
            for (float beta : {0.75f, 0.5f, 1.3f}) {
                LrnInfo info{size, 0.4f, beta, 1.5f};
                auto x = random_f32(dims, random, 3);
                // The sum, two roots and a division; or exp(beta log s), whose argument below 5 carries an error of
                // 1.3 · 1.1 ulp of log s < 4 and of its own rounding, 10 · 2^-24.
                auto others = check_candidates(info, {x}, {Tensor(DataType::F32, dims)}, {1e-37, 16 * 6e-8});
                EXPECT_EQ(others, cpu_features().isa >= Isa::Avx2);
            }
}

TEST(Lrn, SaysWhyItDeclines) {
    std::vector<Tensor> in{Tensor(DataType::F64, {1, 2, 3})}, out{Tensor(DataType::F64, {1, 2, 3})};
    auto operands = operands_of(in), results = operands_of(out);
    auto found = candidates(LrnInfo{3}, request_of(operands, results, Isa::Avx512, 1));
    ASSERT_EQ(found.kernels.size(), 1u);
    EXPECT_EQ(found.kernels[0]->id(), "lrn:cpu:reference:f64");
    EXPECT_EQ(found.rejections[0].reason, "lrn:cpu:tiles: input of f64, expected f32");
    in = {Tensor(DataType::I32, {1, 2})}, out = {Tensor(DataType::I32, {1, 2})};
    operands = operands_of(in), results = operands_of(out);
    EXPECT_TRUE(candidates(LrnInfo{3}, request_of(operands, results, Isa::Avx512, 1)).kernels.empty());
}

}  // namespace
}  // namespace refactor::kernel::test
