#include "kernel/ops/matmul.h"

#include "common/half.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

// Sums of k products of size about 1, rounded to f32 each: sqrt(k) * eps * sqrt(k) with a factor for the tail.
Tolerance tolerance_of(int64_t k, float scale = 1) {
    return {4e-7 * (8 + static_cast<double>(k)) * static_cast<double>(scale), 2e-6};
}

TEST(MatMul, ReferenceMultiplies) {
    std::vector<Tensor> inputs{Tensor::of<int64_t>(DataType::I64, {2, 3}, {1, 2, 3, 4, 5, 6}),
                               Tensor::of<int64_t>(DataType::I64, {3, 2}, {1, -1, 2, 0, 0, 4})},
        outputs{Tensor(DataType::I64, {2, 2})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(MatMulInfo{}, request_of(in, results, cpu_features().isa, 1));
    ASSERT_EQ(found.kernels.size(), 1u);
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.back(), inputs, outputs, packs, pool);
    expect_close(outputs[0], Tensor::of<int64_t>(DataType::I64, {2, 2}, {5, 11, 14, 20}), {}, "i64");
}

struct Case {
    Dims a, b, y;
};

void check(Case const& c, MatMulInfo info, std::mt19937& random) {
    auto swap = [](Dims dims) { return std::swap(dims[dims.size() - 1], dims[dims.size() - 2]), dims; };
    auto k = c.a.back(), n = c.b.back();
    for (int bits = 0; bits < 8; ++bits) {
        info.trans_a = bits & 1, info.trans_b = bits & 2;
        std::vector<Tensor> inputs{random_f32(info.trans_a ? swap(c.a) : c.a, random),
                                   random_f32(info.trans_b ? swap(c.b) : c.b, random)};
        if (bits & 4) inputs[1].as_constant();
        if (info.epilogue.bias) inputs.push_back(random_f32({n}, random));
        if (info.epilogue.residual) inputs.push_back(random_f32(c.y, random));
        check_floats(info, inputs, {Tensor(DataType::F32, c.y)}, tolerance_of(k), bits & 4 ? "constant B" : "");
        if (testing::Test::HasFailure()) return;
    }
}

TEST(MatMul, CandidatesAgreeOnManySizes) {
    std::mt19937 random(seed_of(81));
    Case const cases[]{{{1, 4}, {4, 4}, {1, 4}},           {{5, 7}, {7, 3}, {5, 3}},
                       {{1, 300}, {300, 259}, {1, 259}},   {{4, 130}, {130, 513}, {4, 513}},
                       {{37, 65}, {65, 131}, {37, 131}},   {{61, 1031}, {1031, 97}, {61, 97}},
                       {{130, 33}, {33, 301}, {130, 301}}, {{17, 1}, {1, 19}, {17, 19}},
                       {{23, 65}, {65, 1}, {23, 1}},       {{2, 0}, {0, 3}, {2, 3}},
                       {{2, 0}, {0, 99}, {2, 99}},         {{3, 61}, {61, 83}, {3, 83}},
                       {{4, 29}, {29, 300}, {4, 300}},     {{5, 12}, {12, 700}, {5, 700}},
                       {{7, 256}, {256, 50}, {7, 50}},     {{3, 3, 44}, {3, 44, 90}, {3, 3, 90}}};
    for (auto const& c : cases) check(c, {}, random);
}

TEST(MatMul, CandidatesAgreeOnBroadcasting) {
    std::mt19937 random(seed_of(82));
    Case const cases[]{{{3, 5, 7}, {7, 9}, {3, 5, 9}},
                       {{5, 7}, {3, 7, 9}, {3, 5, 9}},
                       {{2, 3, 17, 33}, {2, 3, 33, 18}, {2, 3, 17, 18}},
                       {{2, 1, 17, 33}, {3, 33, 18}, {2, 3, 17, 18}},
                       {{2, 3, 1, 65}, {1, 3, 65, 70}, {2, 3, 1, 70}},
                       {{4, 3, 2, 65}, {65, 70}, {4, 3, 2, 70}},
                       {{2, 3, 17, 33}, {2, 3, 33, 1}, {2, 3, 17, 1}},
                       {{2, 1, 17, 33}, {3, 33, 1}, {2, 3, 17, 1}},
                       {{3, 8, 43}, {3, 43, 2101}, {3, 8, 2101}},
                       {{3, 1, 5}, {2, 3, 5, 2101}, {2, 3, 1, 2101}},
                       {{3, 9, 16}, {3, 16, 100}, {3, 9, 100}}};
    for (auto const& c : cases) check(c, {}, random);
}

TEST(MatMul, CandidatesAgreeOnEpilogues) {
    std::mt19937 random(seed_of(83));
    for (int kind = 0; kind <= static_cast<int>(ActivationKind::Tanh); ++kind)
        for (int bits = 0; bits < 8; ++bits) {
            MatMulInfo info;
            info.epilogue.activation = {static_cast<ActivationKind>(kind), 0.2f, 0.7f};
            info.epilogue.bias = bits & 1, info.epilogue.residual = bits & 2, info.epilogue.residual_last = bits & 4;
            info.alpha = bits & 1 ? 1 : 0.25f;
            check({{13, 35}, {35, 75}, {13, 75}}, info, random);
            check({{1, 35}, {35, 75}, {1, 75}}, info, random);
            check({{2, 35, 40}, {2, 40, 1}, {2, 35, 1}}, info, random);
            check({{2, 3, 40}, {2, 40, 33}, {2, 3, 33}}, info, random);
        }
}

TEST(MatMul, HalvesOfManySizes) {
    std::mt19937 random(seed_of(88));
    // Rows that pair up, with an odd one, with a tile left over; several blocks of rows and depth; columns left over.
    Case const cases[]{{{1, 48, 66}, {66, 128}, {1, 48, 128}},       {{1, 97, 130}, {130, 256}, {1, 97, 256}},
                       {{1, 101, 1800}, {1800, 130}, {1, 101, 130}}, {{1, 500, 130}, {130, 193}, {1, 500, 193}},
                       {{3, 53, 98}, {98, 200}, {3, 53, 200}},       {{2, 3, 60, 70}, {70, 140}, {2, 3, 60, 140}},
                       {{6, 64, 1000}, {1000, 129}, {6, 64, 129}},   {{2, 530, 600}, {600, 129}, {2, 530, 129}}};
    int bits = 0;
    for (int round = 0; round < 2; ++round, bits += 3)
        for (auto const& c : cases) {
            ++bits;
            MatMulInfo info;
            info.trans_b = bits & 1;
            info.epilogue.activation.kind = bits & 2 ? ActivationKind::GeluErf : ActivationKind::Relu;
            info.epilogue.bias = info.epilogue.residual = bits & 4, info.epilogue.residual_last = bits & 2;
            info.alpha = bits & 4 ? 0.5f : 1;
            auto k = c.b[0], n = c.b[1];
            std::vector<Tensor> inputs{random_f32(c.a, random),
                                       random_f32(info.trans_b ? Dims{n, k} : Dims{k, n}, random)};
            inputs[1].as_constant();
            if (bits & 4) inputs.push_back(random_f32({n}, random)), inputs.push_back(random_f32(c.y, random));
            // Factors are sums of two, and up to four products make an element: errors are four times as large.
            auto others = check_candidates(info, inputs, {Tensor(DataType::F32, c.y)}, tolerance_of(k, 4));
            EXPECT_GE(others, cpu_features().isa >= Isa::Avx512 ? 4 : cpu_features().isa >= Isa::Avx2 ? 2 : 0);
            if (testing::Test::HasFailure()) return;
        }
}

TEST(MatMul, ScalarBias) {
    std::mt19937 random(seed_of(84));
    MatMulInfo info;
    info.epilogue.bias = true;
    for (int64_t m : {1, 3, 50})
        for (int64_t n : {3, 67})
            for (int64_t k : {4, 65})
                for (bool constant : {false, true}) {
                    std::vector<Tensor> inputs{random_f32({m, k}, random), random_f32({k, n}, random),
                                               random_f32({1}, random)};
                    inputs[1].constant = constant;
                    check_floats(info, inputs, {Tensor(DataType::F32, {m, n})}, tolerance_of(k));
                }
}

TEST(MatMul, Columns) {
    std::mt19937 random(seed_of(85));
    MatMulInfo info;
    info.alpha = 0.5f;
    info.epilogue.activation.kind = ActivationKind::GeluErf;
    info.epilogue.bias = info.epilogue.residual = true;
    for (auto const& c : {Case{{300, 65}, {65, 1}, {300, 1}}, Case{{3, 41, 130}, {130, 1}, {3, 41, 1}},
                          Case{{3, 41, 130}, {3, 130, 1}, {3, 41, 1}}})
        check(c, info, random);
}

TEST(MatMul, FewColumns) {
    std::mt19937 random(seed_of(89));
    // Tiles with rows left over, depths in and out of whole vectors, one matrix for all batches and one for each.
    for (int64_t n = 2; n <= 9; ++n)
        for (auto const& c : {Case{{8, 64}, {64, n}, {8, n}}, Case{{41, 35}, {35, n}, {41, n}},
                              Case{{130, 19}, {19, n}, {130, n}}, Case{{29, 200}, {200, n}, {29, n}},
                              Case{{3, 5, 80}, {80, n}, {3, 5, n}}, Case{{3, 21, 80}, {3, 80, n}, {3, 21, n}}}) {
            check(c, {}, random);
            if (HasFailure()) return;
        }
}

TEST(MatMul, EpiloguesOfFewColumns) {
    std::mt19937 random(seed_of(90));
    using enum ActivationKind;
    for (auto kind : {None, Relu, Clip, GeluErf})
        for (int bits = 0; bits < 8; ++bits)
            for (int64_t n : {2, 3, 5, 8}) {
                MatMulInfo info;
                info.epilogue.activation = {kind, -0.2f, 0.7f};
                info.epilogue.bias = bits & 1, info.epilogue.residual = bits & 2,
                info.epilogue.residual_last = bits & 4;
                info.alpha = bits & 1 ? 0.25f : 1;
                check({{43, 70}, {70, n}, {43, n}}, info, random);
                if (HasFailure()) return;
            }
}

TEST(MatMul, LittleDepth) {
    std::mt19937 random(seed_of(91));
    // Columns in one group of vectors and in several, whole and not; all columns of some rows before the next ones.
    for (int64_t k = 1; k <= 17; ++k)
        for (int64_t n : {9 + k, 64 - k, int64_t{131}})
            for (auto const& c : {Case{{13, k}, {k, n}, {13, n}}, Case{{3, 5, k}, {3, k, n}, {3, 5, n}},
                                  Case{{2, 3, 2, k}, {3, k, n}, {2, 3, 2, n}}}) {
                check(c, {}, random);
                if (HasFailure()) return;
            }
    for (auto const& c : {Case{{150, 3}, {3, 1900}, {150, 1900}}, Case{{9, 7}, {7, 9000}, {9, 9000}}})
        check(c, {}, random);
}

TEST(MatMul, EpiloguesOfLittleDepth) {
    std::mt19937 random(seed_of(92));
    using enum ActivationKind;
    for (auto kind : {None, Relu, Clip, GeluErf})
        for (int bits = 0; bits < 16; ++bits)
            for (int64_t k : {2, 5, 11}) {
                MatMulInfo info;
                info.epilogue.activation = {kind, -0.2f, 0.7f};
                info.epilogue.bias = bits & 1, info.epilogue.residual = bits & 2;
                info.epilogue.residual_last = bits & 4, info.alpha = bits & 8 ? 0.25f : 1;
                check({{43, k}, {k, 70}, {43, 70}}, info, random);
                if (HasFailure()) return;
            }
}

/// Few rows and B transposed, of any depth; and columns of A transposed.
TEST(MatMul, DotProducts) {
    std::mt19937 random(seed_of(93));
    for (int64_t m : {2, 3, 5, 16, 17, 29, 32, 33})
        for (int64_t k : {18, 65, 300})
            for (int64_t n : {1, 3, 35}) {
                check({{m, k}, {k, n}, {m, n}}, {}, random);
                check({{2, m, k}, {2, k, n}, {2, m, n}}, {}, random);
                if (HasFailure()) return;
            }
}

/// Random elements of a type that B may have beside f32.
Tensor random_weights(DataType type, Dims dims, std::mt19937& random) {
    if (type == DataType::F32) return random_f32(dims, random);
    Tensor t(type, dims);
    if (type == DataType::I8)
        for (int64_t i = 0; i < t.desc.count(); ++i) t.as<int8_t>()[i] = static_cast<int8_t>(random());
    else
        convert(DataType::F32, random_f32(dims, random).as<float>(), type, t.as<uint16_t>(), t.desc.count());
    return t;
}

TEST(MatMul, WeightsOfSmallerTypes) {
    std::mt19937 random(seed_of(86));
    Dims const sizes[]{{1, 300, 259}, {1, 65, 1},   {2, 7, 3},      {6, 131, 64},   {8, 65, 97},
                       {12, 66, 131}, {13, 33, 80}, {61, 1031, 37}, {130, 66, 101}, {3, 0, 5}};
    for (auto type : {DataType::F16, DataType::BF16, DataType::I8})
        for (auto const& size : sizes)
            for (int bits = 0; bits < 8; ++bits) {
                auto m = size[0], k = size[1], n = size[2];
                MatMulInfo info;
                info.trans_a = bits & 1, info.trans_b = bits & 2, info.scaled = type == DataType::I8;
                info.alpha = bits & 4 ? 0.5f : 1, info.epilogue.bias = bits & 4, info.epilogue.residual = bits & 4;
                if (bits & 4) info.epilogue.activation.kind = ActivationKind::GeluTanh;
                std::vector<Tensor> inputs{random_f32(info.trans_a ? Dims{k, m} : Dims{m, k}, random),
                                           random_weights(type, info.trans_b ? Dims{n, k} : Dims{k, n}, random)};
                inputs[1].as_constant();
                if (info.scaled) inputs.push_back(random_f32({n}, random, 0.01f));
                if (info.epilogue.bias) inputs.push_back(random_f32({n}, random));
                if (info.epilogue.residual) inputs.push_back(random_f32({m, n}, random));
                check_candidates(info, inputs, {Tensor(DataType::F32, {m, n})}, tolerance_of(k, 2));
                if (testing::Test::HasFailure()) return;
            }
}

TEST(MatMul, WeightsOfSmallerTypesUnderManyMatrices) {
    std::mt19937 random(seed_of(87));
    for (auto type : {DataType::F16, DataType::BF16})
        for (bool constant : {false, true}) {
            std::vector<Tensor> inputs{random_f32({3, 5, 70}, random), random_weights(type, {70, 67}, random)};
            inputs[1].constant = constant;
            auto others = check_candidates(MatMulInfo{}, inputs, {Tensor(DataType::F32, {3, 5, 67})}, tolerance_of(70));
            EXPECT_EQ(others > 0, constant && cpu_features().isa >= Isa::Avx2);
        }
}

TEST(MatMul, RefusesTypesThatDoNotFit) {
    struct {
        DataType a, b;
        bool scaled;
        char const* why;
    } const cases[]{{DataType::F32, DataType::I8, false, "inputs are of types f32 and i8"},
                    {DataType::F32, DataType::F16, true, "scaled f16 with f32, expected i8 with f32"},
                    {DataType::F16, DataType::F32, false, "inputs are of types f16 and f32"}};
    for (auto const& c : cases) {
        MatMulInfo info;
        info.scaled = c.scaled;
        std::vector<Tensor> inputs{Tensor(c.a, {2, 3}), Tensor(c.b, {3, 4})};
        inputs[1].as_constant();
        auto in = operands_of(inputs), results = operands_of({Tensor(DataType::F32, {2, 4})});
        auto found = candidates(info, request_of(in, results, cpu_features().isa, 1));
        EXPECT_TRUE(found.kernels.empty());
        EXPECT_NE(found.rejections.back().reason.find(c.why), std::string::npos) << found.rejections.back().reason;
    }
}

TEST(MatMul, RefusesSizesThatDoNotFit) {
    std::vector<Tensor> inputs{Tensor(DataType::F32, {2, 3}), Tensor(DataType::F32, {4, 5})},
        outputs{Tensor(DataType::F32, {2, 5})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    PackCache packs;
    TensorDesc const *x[]{&inputs[0].desc, &inputs[1].desc}, *y = &outputs[0].desc;
    for (auto const& kernel : candidates(MatMulInfo{}, request_of(in, results, cpu_features().isa, 1)).kernels) {
        auto task = kernel->bind({x, {&y, 1}, {}, packs, 1});
        ASSERT_FALSE(task.ok());
        EXPECT_NE(task.error().reason.find("[4, 5]"), std::string::npos) << task.error().reason;
    }
}

}  // namespace
}  // namespace refactor::kernel::test
