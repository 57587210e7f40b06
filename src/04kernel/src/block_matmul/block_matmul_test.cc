#include "kernel/ops/integer.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

Tensor random_bytes(Dims dims, std::mt19937& random) {
    Tensor t(DataType::U8, dims);
    for (int64_t i = 0; i < t.desc.count(); ++i) t.as<uint8_t>()[i] = static_cast<uint8_t>(random());
    return t;
}

TEST(BlockMatMul, CandidatesAgree) {
    std::mt19937 random(seed_of(321));
    for (int32_t bits : {2, 4, 8})
        for (int64_t block : {16, 32, 128})
            for (int64_t rows : {1, 3, 13})
                for (int zeros = 0; zeros < 3; ++zeros) {
                    BlockMatMulInfo info{7, 257 + 31 * zeros, bits, block};
                    auto scales = info.n * info.blocks();
                    std::vector<Tensor> inputs{random_f32({rows, info.k}, random),
                                               random_bytes({info.n, info.blocks(), block * bits / 8}, random),
                                               random_f32({scales}, random),
                                               {},
                                               {},
                                               {}};
                    if (zeros == 1) inputs[3] = random_bytes({info.n, (info.blocks() * bits + 7) / 8}, random);
                    if (zeros == 1 && rows == 3) inputs[3].as_constant();
                    if (zeros == 2) inputs[3] = random_f32({scales}, random, 4);
                    if (rows > 1) inputs[5] = random_f32({info.n}, random);
                    // Sums of k products of size 2^(bits - 1), and as much for the zero points, rounded to f32 each.
                    auto error = 6e-8 * static_cast<double>(info.k) * (2 << bits);
                    check_candidates(info, inputs, {Tensor(DataType::F32, {rows, info.n})}, {error, 0});
                    if (HasFailure()) return;
                }
}

TEST(BlockMatMul, TakesBlocksOfElements) {
    // Two blocks, whose elements take turns.
    BlockMatMulInfo info{1, 4, 4, 2};
    std::vector<Tensor> inputs{Tensor::of<float>(DataType::F32, {1, 4}, {1, 10, 100, 1000}),
                               Tensor::of<uint8_t>(DataType::U8, {1, 2, 1}, {0x98, 0xba}),
                               Tensor::of<float>(DataType::F32, {2}, {1, 2}),
                               {},
                               Tensor::of<int32_t>(DataType::I32, {4}, {0, 1, 0, 1}),
                               {}};
    auto y = Tensor(DataType::F32, {1, 1});
    auto expected = Tensor::of<float>(DataType::F32, {1, 1}, {0 + 10 * 1 * 2 + 100 * 2 + 1000 * 3 * 2});
    auto in = operands_of(inputs), results = operands_of({y});
    auto found = candidates(info, request_of(in, results, cpu_features().isa, 1));
    ASSERT_EQ(found.kernels.size(), 1u);
    PackCache packs;
    ThreadPool pool(1);
    std::vector<Tensor> outputs{y};
    run(*found.kernels[0], inputs, outputs, packs, pool);
    expect_close(outputs[0], expected, {}, "blocks");
}

TEST(BlockMatMul, RefusesSizesThatDoNotFit) {
    BlockMatMulInfo info{3, 64, 4, 32};
    std::vector<Tensor> inputs{
        Tensor(DataType::F32, {2, 64}), Tensor(DataType::U8, {3, 2, 16}), Tensor(DataType::F32, {5}), {}, {}, {}};
    auto in = operands_of(inputs), results = operands_of({Tensor(DataType::F32, {2, 3})});
    PackCache packs;
    std::vector<TensorDesc const*> x;
    for (auto const& t : inputs) x.push_back(t.desc.dtype == DataType::Undefined ? nullptr : &t.desc);
    TensorDesc y{DataType::F32, Layout::Plain, {2, 3}};
    TensorDesc const* outputs[]{&y};
    for (auto const& kernel : candidates(info, request_of(in, results, cpu_features().isa, 1)).kernels) {
        auto task = kernel->bind({x, outputs, {}, packs, 1});
        ASSERT_FALSE(task.ok()) << kernel->id();
        EXPECT_NE(task.error().reason.find("input 2 has 5 elements, expected 6"), std::string::npos);
    }
    info.bits = 3;
    EXPECT_TRUE(candidates(info, request_of(in, results, cpu_features().isa, 1)).kernels.empty());
}

}  // namespace
}  // namespace refactor::kernel::test
