#include "kernel/ops/svm.h"

#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

/// Runs the only candidate.
template <class Info>
void run_only(Info const& info, std::vector<Tensor>& inputs, std::vector<Tensor>& outputs, int threads) {
    auto in = operands_of(inputs), out = operands_of(outputs);
    auto found = candidates(info, request_of(in, out, Isa::Scalar, threads));
    ASSERT_EQ(found.kernels.size(), 1U) << (found.rejections.empty() ? "" : found.rejections[0].reason);
    PackCache packs;
    ThreadPool pool(threads);
    run(*found.kernels[0], inputs, outputs, packs, pool);
}

TEST(SquaredDistance, FollowsTheDefinition) {
    std::mt19937 random(20261121);
    for (int64_t rows : {1, 5, 40})
        for (int64_t vectors : {1, 31, 32, 77})
            for (int64_t features : {1, 9, 64}) {
                auto x = random_f32({rows, features}, random), v = random_f32({vectors, features}, random);
                std::vector<Tensor> inputs{x, v}, outputs{Tensor(DataType::F32, {rows, vectors})};
                run_only(SquaredDistanceInfo{}, inputs, outputs, 3);
                for (int64_t r = 0; r < rows; ++r)
                    for (int64_t k = 0; k < vectors; ++k) {
                        double sum = 0;
                        for (int64_t f = 0; f < features; ++f) {
                            auto d = static_cast<double>(x.as<float>()[r * features + f]) -
                                     static_cast<double>(v.as<float>()[k * features + f]);
                            sum += d * d;
                        }
                        // Each of the positive terms is rounded thrice, each sum once.
                        EXPECT_NEAR(outputs[0].as<float>()[r * vectors + k], sum,
                                    static_cast<double>(features + 3) * 0x1p-24 * sum + 1e-30);
                    }
            }
}

TEST(SvmVotes, ThreeClasses) {
    // One vector for each class: the decision of a pair is the sum of two products.
    SvmVotesInfo info;
    info.vectors = {1, 1, 1};
    std::vector<Tensor> inputs{Tensor::of<float>(DataType::F32, {2, 3}, {1, 2, 4, -1, 0.5f, 3}),
                               Tensor::of<float>(DataType::F32, {2, 3}, {1, -1, 2, 0.5f, 3, -2}),
                               Tensor::of<float>(DataType::F32, {3}, {0.25f, 0, -1}),
                               Tensor::of<int64_t>(DataType::I64, {3}, {7, -5, 9})};
    std::vector<Tensor> outputs{Tensor(DataType::F32, {2, 3}), Tensor(DataType::I64, {2})};
    run_only(info, inputs, outputs, 2);
    // Pairs (0, 1): c[0][0] k0 + c[0][1] k1 + rho; (0, 2): c[1][0] k0 + c[0][2] k2; (1, 2): c[1][1] k1 + c[1][2] k2.
    float const scores[]{1 - 2 + 0.25f, 0.5f + 8, 6 - 8 - 1, -1 - 0.5f + 0.25f, -0.5f + 6, 1.5f - 6 - 1};
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(outputs[0].as<float>()[i], scores[i]) << i;
    // Votes are 1 (pair 0, 1), 0 (0, 2), 2 (1, 2): the first class of the most votes.
    EXPECT_EQ(outputs[1].as<int64_t>()[0], 7);
    EXPECT_EQ(outputs[1].as<int64_t>()[1], 7);
    inputs[0].desc.dims = {3, 2};
    auto in = operands_of(inputs), out = operands_of(outputs);
    auto found = candidates(info, request_of(in, out, Isa::Scalar, 1));
    TensorDesc const* operands[]{&inputs[0].desc, &inputs[1].desc, &inputs[2].desc, &inputs[3].desc};
    TensorDesc const* results[]{&outputs[0].desc, &outputs[1].desc};
    PackCache packs;
    EXPECT_FALSE(found.kernels[0]->bind({operands, results, {}, packs, 1}).ok());
}

}  // namespace
}  // namespace refactor::kernel::test
