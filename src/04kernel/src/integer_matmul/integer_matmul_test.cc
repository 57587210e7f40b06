#include "integer_matmul/integer_test.h"

#include <map>
#include <string>

namespace refactor::kernel::test {
namespace {

struct Product {
    Dims a, b, y, a_zeros, b_zeros;
};

void check(Product const& p, std::mt19937& random) {
    auto k = p.a.back(), n = p.b.back();
    int scales = 0;
    for (auto const& c : integer_cases()) {
        auto inputs = with_operands(c, random_bytes(c.a, p.a, random), random_bytes(c.b, p.b, random), p.a_zeros,
                                    p.b_zeros, n, k, ++scales % 2 == 0, p.y, random);
        IntegerMatMulInfo info;
        info.result = c.result();
        auto others = check_candidates(info, inputs, {Tensor(c.y, p.y)}, kFused, c.constant ? "constant B" : "");
        if (testing::Test::HasFailure()) return;
        if (cpu_features().isa >= Isa::Avx2) {
            EXPECT_GE(others, 1);
        }
    }
}

TEST(IntegerMatMul, ReferenceMultiplies) {
    std::vector<Tensor> inputs{Tensor::of<uint8_t>(DataType::U8, {2, 3}, {1, 2, 3, 4, 5, 255}),
                               Tensor::of<int8_t>(DataType::I8, {3, 2}, {1, -1, 2, 0, 0, -128}),
                               Tensor::of<uint8_t>(DataType::U8, {}, {1}),
                               Tensor::of<int8_t>(DataType::I8, {2}, {1, 0})};
    inputs.resize(IntegerMatMulInfo::kInputs);
    std::vector<Tensor> outputs{Tensor(DataType::I32, {2, 2})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(IntegerMatMulInfo{}, request_of(in, results, Isa::Scalar, 1));
    ASSERT_EQ(found.kernels.size(), 1u);
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels[0], inputs, outputs, packs, pool);
    // A - 1 = [0 1 2; 3 4 254], B - [1 0] = [0 -1; 1 0; -1 -128]
    expect_close(outputs[0], Tensor::of<int32_t>(DataType::I32, {2, 2}, {-1, -256, -250, -3 - 254 * 128}), {}, "i32");
}

TEST(IntegerMatMul, CandidatesAgreeOnManySizes) {
    std::mt19937 random(seed_of(301));
    for (auto const& p :
         {Product{{1, 4}, {4, 4}, {1, 4}, {}, {}}, Product{{5, 7}, {7, 3}, {5, 3}, {5}, {3}},
          Product{{1, 301}, {301, 131}, {1, 131}, {}, {131}}, Product{{37, 65}, {65, 67}, {37, 67}, {37}, {}},
          Product{{61, 260}, {260, 97}, {61, 97}, {}, {}}, Product{{17, 1}, {1, 19}, {17, 19}, {1}, {1}},
          Product{{2, 0}, {0, 3}, {2, 3}, {}, {}}, Product{{0, 5}, {5, 3}, {0, 3}, {}, {}}})
        check(p, random);
}

TEST(IntegerMatMul, CandidatesAgreeOnFewProducts) {
    std::mt19937 random(seed_of(304));
    for (int64_t k : {5, 8, 14, 16, 23, 24, 29, 32})
        for (int64_t n : {7, 16, 32, 47, 64, 85}) {
            auto m = static_cast<int64_t>(1 + random() % 13);
            check({{m, k}, {k, n}, {m, n}, {}, {}}, random);
        }
}

TEST(IntegerMatMul, CandidatesAgreeOnBroadcasting) {
    std::mt19937 random(seed_of(302));
    for (auto const& p :
         {Product{{3, 5, 7}, {7, 9}, {3, 5, 9}, {}, {9}}, Product{{3, 5, 7}, {7, 9}, {3, 5, 9}, {5}, {}},
          Product{{3, 5, 7}, {7, 9}, {3, 5, 9}, {3, 5, 1}, {}}, Product{{5, 7}, {3, 7, 9}, {3, 5, 9}, {}, {3, 1, 9}},
          Product{{2, 1, 11, 33}, {3, 33, 18}, {2, 3, 11, 18}, {11}, {18}},
          // One matrix for each product, whole panels of columns and less.
          Product{{12, 1, 33}, {12, 33, 64}, {12, 1, 64}, {}, {12, 1, 64}},
          Product{{2, 4, 3, 8}, {2, 4, 8, 85}, {2, 4, 3, 85}, {2, 4, 3, 1}, {}}})
        check(p, random);
}

TEST(IntegerMatMul, CandidatesAgreeOnSumsThatWouldSaturate) {
    std::mt19937 random(seed_of(305));
    for (auto const& p : {Product{{13, 36}, {36, 64}, {13, 64}, {}, {}}, Product{{7, 260}, {260, 97}, {7, 97}, {}, {}},
                          Product{{41, 67}, {67, 40}, {41, 40}, {}, {}}, Product{{6, 512}, {512, 8}, {6, 8}, {}, {}}})
        for (auto a : {DataType::U8, DataType::I8})
            for (bool extreme : {true, false}) {
                IntegerCase c{a, DataType::I8, DataType::I32, true, false, true};
                auto inputs = with_operands(c, random_bytes(a, p.a, random), random_small_bytes(p.b, p.b[1], random),
                                            {}, {}, p.b[1], p.a[1], false, p.y, random);
                // The largest of A, as u8.
                if (extreme)
                    std::fill(inputs[0].bytes.begin(), inputs[0].bytes.end(),
                              std::byte{static_cast<uint8_t>(a == DataType::U8 ? 255 : 127)});
                Tensor y(DataType::I32, p.y);
                check_candidates(IntegerMatMulInfo{}, inputs, {y}, {});
                if (cpu_features().isa >= Isa::Avx2) {
                    EXPECT_EQ(saturating_candidates(IntegerMatMulInfo{}, inputs, y), 1);
                }
            }
}

TEST(IntegerMatMul, ManySumsThatWouldSaturateAreLeftToWords) {
    std::mt19937 random(seed_of(306));
    std::vector<Tensor> inputs{random_bytes(DataType::U8, {5, 64}, random),
                               random_bytes(DataType::I8, {64, 16}, random)};
    inputs.resize(IntegerMatMulInfo::kInputs);
    inputs[1].constant = true;
    Tensor y(DataType::I32, {5, 16});
    EXPECT_EQ(saturating_candidates(IntegerMatMulInfo{}, inputs, y), 0);
    check_candidates(IntegerMatMulInfo{}, inputs, {y}, {});
}

TEST(IntegerMatMul, FewRowsReadWeightsAsBytes) {
    auto isa = std::min(Isa::Avx2, cpu_features().isa);
    if (isa < Isa::Avx2) GTEST_SKIP() << "for AVX2";
    std::mt19937 random(seed_of(307));
    for (int64_t rows : {1, 64}) {
        std::vector<Tensor> inputs{random_bytes(DataType::U8, {rows, 768}, random),
                                   random_bytes(DataType::I8, {768, 256}, random)};
        inputs.resize(IntegerMatMulInfo::kInputs);
        inputs[1].constant = true;
        Tensor y(DataType::I32, {rows, 256});
        std::vector<TensorDesc const*> x;
        for (auto const& t : inputs) x.push_back(t.desc.dtype == DataType::Undefined ? nullptr : &t.desc);
        TensorDesc const* outputs[]{&y.desc};
        PackCache packs;
        auto in = operands_of(inputs), results = operands_of({y});
        std::map<std::string, double> costs;
        for (auto const& kernel : candidates(IntegerMatMulInfo{}, request_of(in, results, isa, 1)).kernels)
            costs[kernel->id()] = kernel->estimate({x, outputs, {}, packs, 1}).value();
        auto narrow = costs.at("integer_matmul:cpu:narrow:u8:avx2"),
             words = costs.at("integer_matmul:cpu:packed:u8:avx2");
        EXPECT_EQ(narrow < words, rows == 1) << rows << " rows: " << narrow << ", words " << words;
    }
}

/// Scales of an infinite range: a sum of 0 becomes NaN, which bounds leave.
TEST(IntegerMatMul, ResultsThatAreNaNStay) {
    for (bool bounded : {false, true})
        for (int64_t rows : {1, 5, 13}) {
            std::vector<Tensor> inputs{Tensor(DataType::U8, {rows, 40}), Tensor(DataType::I8, {40, 37})};
            inputs[1].as_constant(), inputs.resize(IntegerMatMulInfo::kInputs);
            inputs[IntegerMatMulInfo::kScale] = Tensor::of<float>(DataType::F32, {1}, {INFINITY});
            IntegerMatMulInfo info;
            if (bounded) info.result.low = -1, info.result.high = 1;
            std::fill_n(inputs[0].as<uint8_t>(), rows * 40, uint8_t{0});
            std::fill_n(inputs[1].as<int8_t>(), 40 * 37, int8_t{3});
            std::vector<Tensor> outputs{Tensor(DataType::F32, {rows, 37})};
            EXPECT_GE(check_candidates(info, inputs, outputs, {}), cpu_features().isa >= Isa::Avx2);
            auto in = operands_of(inputs), results = operands_of(outputs);
            auto found = candidates(info, request_of(in, results, Isa::Scalar, 1));
            PackCache packs;
            ThreadPool pool(1);
            run(*found.kernels.back(), inputs, outputs, packs, pool);
            EXPECT_TRUE(std::isnan(outputs[0].as<float>()[0]));
        }
}

TEST(IntegerMatMul, SumsWrap) {
    // 40000 products of 255 · 255 and a bias exceed an i32.
    std::vector<Tensor> inputs{Tensor(DataType::U8, {2, 40000}), Tensor(DataType::U8, {40000, 3})};
    inputs.resize(IntegerMatMulInfo::kInputs);
    std::fill(inputs[0].bytes.begin(), inputs[0].bytes.end(), std::byte{255});
    std::fill(inputs[1].bytes.begin(), inputs[1].bytes.end(), std::byte{255});
    check_candidates(IntegerMatMulInfo{}, inputs, {Tensor(DataType::I32, {2, 3})}, {});
}

TEST(IntegerMatMul, Refuses) {
    std::vector<Tensor> inputs{Tensor(DataType::U8, {2, 3}), Tensor(DataType::I8, {3, 5})};
    inputs.resize(IntegerMatMulInfo::kInputs);
    auto reason = [&](Tensor const& y) {
        auto in = operands_of(inputs), results = operands_of({y});
        auto found = candidates(IntegerMatMulInfo{}, request_of(in, results, cpu_features().isa, 1));
        EXPECT_TRUE(found.kernels.empty());
        return found.rejections.empty() ? std::string() : found.rejections.back().reason;
    };
    EXPECT_NE(reason(Tensor(DataType::U8, {2, 5})).find("input 5 of undefined, expected f32"), std::string::npos);
    EXPECT_NE(reason(Tensor(DataType::I16, {2, 5})).find("output of i16"), std::string::npos);
    inputs[2] = Tensor(DataType::I8, {});
    EXPECT_NE(reason(Tensor(DataType::I32, {2, 5})).find("input 2 of i8, expected u8"), std::string::npos);
    inputs[2] = Tensor(DataType::U8, {4});
    auto in = operands_of(inputs), results = operands_of({Tensor(DataType::I32, {2, 5})});
    PackCache packs;
    std::vector<TensorDesc const*> x;
    for (auto const& t : inputs) x.push_back(t.desc.dtype == DataType::Undefined ? nullptr : &t.desc);
    TensorDesc y{DataType::I32, Layout::Plain, {2, 5}};
    TensorDesc const* outputs[]{&y};
    for (auto const& kernel : candidates(IntegerMatMulInfo{}, request_of(in, results, cpu_features().isa, 1)).kernels) {
        auto task = kernel->bind({x, outputs, {}, packs, 1});
        ASSERT_FALSE(task.ok()) << kernel->id();
        EXPECT_NE(task.error().reason.find("4 zero points for A"), std::string::npos) << task.error().reason;
    }
}

}  // namespace
}  // namespace refactor::kernel::test
