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
                    // A panel and some columns, several depths of a panel; then one row of some columns.
                    BlockMatMulInfo info{rows == 13 ? 71 : 7, (rows == 13 ? 1100 : 257) + 31 * zeros, bits, block};
                    auto scales = info.n * info.blocks();
                    std::vector<Tensor> inputs{random_f32({rows, info.k}, random),
                                               random_bytes({info.n, info.blocks(), block * bits / 8}, random),
                                               random_f32({scales}, random),
                                               {},
                                               {},
                                               {}};
                    if (zeros == 1) inputs[3] = random_bytes({info.n, (info.blocks() * bits + 7) / 8}, random);
                    if (zeros == 1 && (rows == 3 || (rows == 13 && bits == 4))) inputs[3].as_constant();
                    if (zeros == 2) inputs[3] = random_f32({scales}, random, 4);
                    if (rows > 1) inputs[5] = random_f32({info.n}, random);
                    // Sums of k products of size 2^(bits - 1), and as much for the zero points (or what was drawn for
                    // these), rounded to f32 each.
                    auto error = 6e-8 * static_cast<double>(info.k) * ((2 << bits) + (zeros == 2 ? 8 : 0));
                    check_candidates(info, inputs, {Tensor(DataType::F32, {rows, info.n})}, {error, 0});
                    if (HasFailure()) return;
                }
}

/// Rows whose blocks are whole multiples, from -127 to 127, of a power of 2 each: they round to themselves.
Tensor random_steps(int64_t rows, BlockMatMulInfo const& info, std::mt19937& random) {
    Tensor t(DataType::F32, {rows, info.k});
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t first = 0; first < info.k; first += info.block) {
            auto step = std::ldexp(1.f, static_cast<int>(random() % 5) - 8);
            auto count = static_cast<int>(std::min(info.block, info.k - first));
            auto* block = t.as<float>() + i * info.k + first;
            for (int p = 0; p < count; ++p)
                block[p] = static_cast<float>(static_cast<int>(random() % 255) - 127) * step;
            block[random() % static_cast<unsigned>(count)] = random() % 2 ? 127 * step : -127 * step;
        }
    return t;
}

TEST(BlockMatMul, RoundsRowsToBytes) {
    std::mt19937 random(seed_of(322));
    for (int32_t bits : {2, 4, 8})
        for (int64_t block : {16, 32, 256})
            for (int64_t rows : {1, 5, 6, 13})
                for (bool zeros : {false, true})
                    for (bool steps : {true, false}) {
                        BlockMatMulInfo info{77, 600 - 3 * rows, bits, block, true};
                        auto scales = info.n * info.blocks();
                        std::vector<Tensor> inputs{
                            steps ? random_steps(rows, info, random) : random_f32({rows, info.k}, random),
                            random_bytes({info.n, info.blocks(), block * bits / 8}, random).as_constant(),
                            random_f32({scales}, random).as_constant(),
                            {},
                            {},
                            {}};
                        if (zeros)
                            inputs[3] = random_bytes({info.n, (info.blocks() * bits + 7) / 8}, random).as_constant();
                        if (rows > 1) inputs[5] = random_f32({info.n}, random);
                        double a = 0, scale = 0, codes = 1 << bits;
                        for (int64_t i = 0; i < rows * info.k; ++i)
                            a = std::max(a, std::fabs(static_cast<double>(inputs[0].as<float>()[i])));
                        for (int64_t i = 0; i < scales; ++i)
                            scale = std::max(scale, std::fabs(static_cast<double>(inputs[2].as<float>()[i])));
                        // Products of each k and its zero point, sums of both rounded to f32; else half a step of the
                        // 254 of a block as well.
                        auto error = static_cast<double>(info.k) * codes * a * scale * (steps ? 6e-8 : 1. / 254);
                        auto others =
                            check_candidates(info, inputs, {Tensor(DataType::F32, {rows, info.n})}, {error, 0});
                        EXPECT_TRUE(cpu_features().isa < Isa::Avx512Vnni || others == (bits == 8 ? 5 : 6)) << others;
                        if (HasFailure()) return;
                    }
}

TEST(BlockMatMul, RoundsBlocksOfAnyMagnitude) {
    BlockMatMulInfo info{1, 64, 4, 16, true};
    Tensor a(DataType::F32, {4, 64}), q(DataType::U8, {1, 4, 8}), y(DataType::F32, {4, 1});
    std::fill_n(q.as<uint8_t>(), 32, uint8_t{0x99});  // weights of 1
    auto* rows = a.as<float>();
    std::fill_n(rows, 256, 0.f);
    rows[0] = 1e-38f, rows[20] = 1e37f, rows[40] = -1e30f;
    rows[64 + 5] = -2.5f, rows[128 + 3] = std::numeric_limits<float>::infinity();
    rows[192 + 63] = std::numeric_limits<float>::quiet_NaN();
    std::vector<Tensor> inputs{
        a, q.as_constant(), Tensor::of<float>(DataType::F32, {4}, {1, 1, 1, 1}).as_constant(), {}, {}, {}};
    auto in = operands_of(inputs), results = operands_of({y});
    auto found = candidates(info, request_of(in, results, cpu_features().isa, 1));
    PackCache packs;
    ThreadPool pool(1);
    for (auto const& kernel : found.kernels) {
        std::vector<Tensor> outputs{y};
        run(*kernel, inputs, outputs, packs, pool);
        auto const* actual = outputs[0].as<float>();
        EXPECT_NEAR(actual[0], 1e37f, 1e37f * 1e-6f) << kernel->id();
        EXPECT_EQ(actual[1], -2.5f) << kernel->id();
        EXPECT_FALSE(std::isfinite(actual[2])) << kernel->id();
        EXPECT_TRUE(std::isnan(actual[3])) << kernel->id();
    }
}

TEST(BlockMatMul, RoundsOnlyWhereItMay) {
    BlockMatMulInfo info{3, 64, 4, 32};
    std::vector<Tensor> inputs{Tensor(DataType::F32, {2, 64}),
                               Tensor(DataType::U8, {3, 2, 16}).as_constant(),
                               Tensor(DataType::F32, {6}).as_constant(),
                               {},
                               {},
                               {}};
    auto in = operands_of(inputs), results = operands_of({Tensor(DataType::F32, {2, 3})});
    auto request = request_of(in, results, Isa::Avx512Vnni, 1);
    auto reason = [&] {
        auto text = candidates(info, request).rejections.at(0).reason;
        return text.substr(text.find(": ") + 2);
    };
    EXPECT_EQ(reason(), "A may not be rounded");
    info.may_round = true, request.precision = Precision::Exact;
    EXPECT_EQ(reason(), "has a larger error than exact precision allows");
    request.precision = Precision::Default, request.isa = Isa::Avx2;
    EXPECT_EQ(reason(), "needs avx512vnni, allowed is avx2");
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
