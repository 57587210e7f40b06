#include "kernel/ops/matmul.h"
#include "reduce/rounded_test.h"

namespace refactor::kernel::test {
namespace {

constexpr char kRounded[] = "matmul:cpu:rounded:bf16:avx512bf16", kTiles[] = "matmul:cpu:rounded:bf16:avx512amx";

/// Sums of k products of size about 1, each rounded to f32.
Tolerance tolerance_of(int64_t k) { return {4e-7 * (8 + static_cast<double>(k)), 2e-6}; }

/// B of numbers of bf16, in this type.
Tensor weights_of(DataType type, Dims dims, std::mt19937& random) {
    auto wide = random_bf16(dims, random);
    if (type == DataType::F32) return wide;
    Tensor t(type, dims);
    convert(DataType::F32, wide.as<float>(), type, t.as<uint16_t>(), t.desc.count());
    return t;
}

TEST(RoundedMatMul, MultipliesPairsExactly) {
    std::mt19937 random(seed_of(71));
    Dims const sizes[]{{1, 300, 259}, {1, 65, 1},     {2, 7, 3},    {6, 131, 64},   {8, 65, 97},  {13, 33, 80},
                       {5, 1, 19},    {61, 1031, 37}, {7, 32, 200}, {130, 66, 101}, {257, 2, 64}, {40, 700, 128}};
    int bits = 0;
    for (auto type : {DataType::F32, DataType::BF16, DataType::F16})
        for (auto const& size : sizes)
            for (int round = 0; round < 4; ++round, bits += 5) {
                auto m = size[0], k = size[1], n = size[2];
                MatMulInfo info;
                info.may_round = true, info.trans_b = bits & 1, info.alpha = bits & 4 ? 0.5f : 1;
                info.epilogue.bias = bits & 2, info.epilogue.residual = bits & 4;
                info.epilogue.residual_last = bits & 8;
                if (bits & 8) info.epilogue.activation.kind = ActivationKind::GeluTanh;
                std::vector<Tensor> inputs{random_bf16({m, k}, random),
                                           weights_of(type, info.trans_b ? Dims{n, k} : Dims{k, n}, random)};
                inputs[1].as_constant();
                if (info.epilogue.bias) inputs.push_back(random_f32({n}, random));
                if (info.epilogue.residual) inputs.push_back(random_f32({m, n}, random));
                auto others = check_candidates(info, inputs, {Tensor(DataType::F32, {m, n})}, tolerance_of(k));
                EXPECT_GE(others, has_rounded() ? 2 : 0);
                if (testing::Test::HasFailure()) return;
            }
}

TEST(RoundedMatMul, StacksOfRows) {
    std::mt19937 random(seed_of(72));
    MatMulInfo info;
    info.may_round = true;
    for (auto const& dims : {Dims{3, 5, 71}, Dims{2, 3, 17, 40}, Dims{2, 0, 40}}) {
        auto k = dims.back();
        std::vector<Tensor> inputs{random_bf16(dims, random), random_bf16({1, k, 67}, random)};
        if (dims.size() > 3) inputs[1] = random_bf16({k, 67}, random);
        inputs[1].as_constant();
        auto y = dims;
        y.back() = 67;
        check_candidates(info, inputs, {Tensor(DataType::F32, y)}, tolerance_of(k));
    }
}

TEST(RoundedMatMul, OperandsOfARun) {
    std::mt19937 random(seed_of(74));
    struct {
        Dims a, b, y;
    } const cases[]{{{3, 40, 71}, {3, 71, 67}, {3, 40, 67}},         {{2, 3, 61, 33}, {2, 3, 33, 130}, {2, 3, 61, 130}},
                    {{2, 1, 30, 18}, {3, 18, 17}, {2, 3, 30, 17}},   {{4, 9, 40}, {40, 64}, {4, 9, 64}},
                    {{1, 300, 1500}, {1, 1500, 100}, {1, 300, 100}}, {{2, 50, 1}, {2, 1, 70}, {2, 50, 70}}};
    for (auto const& c : cases)
        for (int bits = 0; bits < 4; ++bits) {
            MatMulInfo info;
            info.may_round = true, info.trans_b = bits & 1, info.alpha = bits & 2 ? 0.5f : 1;
            if (bits & 2) info.epilogue.activation.kind = ActivationKind::Relu;
            info.epilogue.bias = bits & 2;
            auto b = c.b;
            if (info.trans_b) std::swap(b[b.size() - 1], b[b.size() - 2]);
            std::vector<Tensor> inputs{random_bf16(c.a, random), random_bf16(b, random)};
            if (info.epilogue.bias) inputs.push_back(random_f32({c.y.back()}, random));
            auto others = check_candidates(info, inputs, {Tensor(DataType::F32, c.y)}, tolerance_of(c.a.back()));
            EXPECT_GE(others, wide_levels(cpu_features().isa) + has_rounded());
            if (testing::Test::HasFailure()) return;
        }
}

/// The one kernel that rounds, or null.
std::unique_ptr<Kernel> rounded_kernel(MatMulInfo const& info, std::vector<Tensor> const& inputs, Tensor const& y) {
    auto in = operands_of(inputs), results = operands_of({y});
    auto found = candidates(info, request_of(in, results, cpu_features().isa, 1));
    for (auto& kernel : found.kernels)
        if (kernel->id() == kRounded) return std::move(kernel);
    return nullptr;
}

TEST(RoundedMatMul, RoundsToNearest) {
    if (!has_rounded()) GTEST_SKIP() << "this processor has no products of bf16";
    std::mt19937 random(seed_of(73));
    MatMulInfo info;
    info.may_round = true;
    // Ties go to even: 1 + 2^-8 is 1, 1 + 3 * 2^-8 is 1 + 2^-6. What is too large becomes infinite, NaN stays.
    constexpr float kUp = 1 + 0x1p-7f, kTwo = 1 + 0x1p-6f;
    std::vector<float> const rows{1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 1 + 0x1.01p-8f, 3.4e38f, NAN},
        rounded_rows{1, kTwo, kUp, INFINITY, NAN}, columns{1, -1 - 0x1p-8f, 1 + 0x1.01p-8f},
        rounded_columns{1, -1, kUp};
    constexpr size_t kColumns = 18;
    std::vector<float> b, expected;
    for (size_t j = 0; j < kColumns; ++j) b.push_back(columns[j % 3]);
    for (auto x : rounded_rows)
        for (size_t j = 0; j < kColumns; ++j) expected.push_back(x * rounded_columns[j % 3]);
    std::vector<Tensor> inputs{Tensor::of<float>(DataType::F32, {5, 1}, rows),
                               Tensor::of<float>(DataType::F32, {1, kColumns}, b)};
    inputs[1].as_constant();
    std::vector<Tensor> outputs{Tensor(DataType::F32, {5, kColumns})};
    auto kernel = rounded_kernel(info, inputs, outputs[0]);
    ASSERT_NE(kernel, nullptr);
    PackCache packs;
    ThreadPool pool(1);
    run(*kernel, inputs, outputs, packs, pool);
    expect_close(outputs[0], Tensor::of<float>(DataType::F32, {5, kColumns}, expected), {}, "bf16");
}

/// Rows that tiles read in place and those that they copy, vectors for few of them, parts of panels.
TEST(RoundedMatMul, NarrowOperands) {
    if (!has_rounded()) GTEST_SKIP() << "this processor has no products of bf16";
    std::mt19937 random(seed_of(75));
    Dims const sizes[]{{1, 64, 40},   {5, 66, 33},     {16, 32, 9},   {37, 96, 131},
                       {64, 128, 64}, {101, 2080, 65}, {300, 34, 200}};
    int bits = 0;
    for (auto const& size : sizes)
        for (int round = 0; round < 6; ++round, bits += 5) {
            auto m = size[0], k = size[1], n = size[2];
            NarrowOnes narrow{round % 3 != 0, round % 3 != 1};
            MatMulInfo info;
            info.may_round = true, info.trans_b = bits & 1, info.alpha = bits & 4 ? 0.5f : 1;
            info.epilogue.bias = bits & 2, info.epilogue.residual = !narrow.output;
            if (bits & 8) info.epilogue.activation.kind = ActivationKind::GeluErf;
            std::vector<Tensor> inputs{random_bf16({m, k}, random),
                                       random_f32(info.trans_b ? Dims{n, k} : Dims{k, n}, random)};
            inputs[1].as_constant();
            if (info.epilogue.bias) inputs.push_back(random_f32({n}, random));
            if (info.epilogue.residual) inputs.push_back(random_f32({m, n}, random));
            Tensor const y(DataType::F32, {m, n});
            for (int threads = 1; threads <= 3; ++threads) {
                expect_same_narrow(kRounded, info, inputs, y, narrow, threads);
                // Tiles store f32 once for each block of k.
                auto tolerance = k > 2000 ? tolerance_of(k) : Tolerance{};
                if (cpu_features().isa >= Isa::Avx512Amx && m >= 16)
                    expect_same_narrow(kTiles, info, inputs, y, narrow, threads, tolerance);
            }
            if (testing::Test::HasFailure()) return;
        }
}

TEST(RoundedMatMul, RefusesNarrowOperands) {
    struct {
        DataType a, b, y;
        Dims weights;
        bool constant, residual;
        char const* why;
    } const cases[]{
        {DataType::BF16, DataType::F32, DataType::F32, {64, 16}, false, false, "and not one constant matrix"},
        {DataType::F32, DataType::F32, DataType::BF16, {64, 16}, false, false, "and not one constant matrix"},
        {DataType::BF16, DataType::F32, DataType::F32, {63, 16}, true, false, "63 elements, expected an even number"},
        {DataType::BF16,
         DataType::F32,
         DataType::F32,
         {64, 8},
         true,
         false,
         "is for columns that fill most of a vector"},
        {DataType::F32, DataType::F32, DataType::BF16, {64, 16}, true, true, "Y is bf16 and has a residual"},
        {DataType::F16, DataType::F32, DataType::F32, {64, 16}, true, false, "A is f16, expected f32 or bf16"},
        {DataType::F32, DataType::F32, DataType::F16, {64, 16}, true, false, "Y is f16, expected f32 or bf16"}};
    for (auto const& c : cases) {
        MatMulInfo info;
        info.may_round = true, info.epilogue.residual = c.residual;
        std::vector<Tensor> inputs{Tensor(c.a, {40, c.weights[0]}), Tensor(c.b, c.weights)};
        inputs[1].constant = c.constant;
        if (c.residual) inputs.push_back(Tensor(DataType::F32, {40, c.weights[1]}));
        auto in = operands_of(inputs), results = operands_of({Tensor(c.y, {40, c.weights[1]})});
        auto found = candidates(info, request_of(in, results, Isa::Avx512Bf16, 1));
        EXPECT_TRUE(found.kernels.empty()) << c.why;
        std::string text;
        for (auto const& rejection : found.rejections) text += rejection.reason + "\n";
        EXPECT_NE(text.find(c.why), std::string::npos) << c.why << " is not in\n" << text;
    }
}

TEST(RoundedMatMul, RefusesWhatDoesNotFit) {
    struct {
        bool may_round, trans_a, constant, scaled;
        Isa isa;
        char const* why;
    } const cases[]{{false, false, true, false, Isa::Avx512Bf16, "may not be rounded to bf16"},
                    {true, false, true, false, Isa::Avx512Vnni, "needs avx512bf16, allowed is avx512vnni"},
                    {true, true, true, false, Isa::Avx512Bf16, "A is transposed"},
                    {true, false, false, false, Isa::Avx512Bf16, "B is f16 and not one constant matrix"},
                    {true, false, true, true, Isa::Avx512Bf16, "B is i8, expected f32, f16 or bf16"}};
    for (auto const& c : cases) {
        MatMulInfo info;
        info.may_round = c.may_round, info.trans_a = c.trans_a, info.scaled = c.scaled;
        std::vector<Tensor> inputs{Tensor(DataType::F32, c.trans_a ? Dims{3, 2} : Dims{2, 3}),
                                   Tensor(c.scaled     ? DataType::I8
                                          : c.constant ? DataType::F32
                                                       : DataType::F16,
                                          {3, 4})};
        if (c.scaled) inputs.push_back(Tensor(DataType::F32, {4}));
        inputs[1].constant = c.constant;
        auto in = operands_of(inputs), results = operands_of({Tensor(DataType::F32, {2, 4})});
        auto found = candidates(info, request_of(in, results, c.isa, 1));
        EXPECT_FALSE(found.kernels.empty());
        std::string text;
        for (auto const& rejection : found.rejections) text += rejection.reason + "\n";
        EXPECT_NE(text.find(c.why), std::string::npos) << c.why << " is not in\n" << text;
    }
}

}  // namespace
}  // namespace refactor::kernel::test
