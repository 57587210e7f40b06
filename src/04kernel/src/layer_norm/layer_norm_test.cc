#include "kernel/ops/reduce.h"
#include "reduce/rounded_test.h"

namespace refactor::kernel::test {
namespace {

// Values of about 3 after scaling; mean and variance over n terms in at least 8 lanes: error below 16 eps of each.
constexpr Tolerance kTolerance{2e-5, 2e-5};

TEST(LayerNorm, ReferenceNormalises) {
    std::vector<Tensor> inputs{Tensor::of<float>(DataType::F32, {1, 4}, {1, 2, 3, 6}),
                               Tensor::of<float>(DataType::F32, {4}, {1, 1, 2, 1}),
                               Tensor::of<float>(DataType::F32, {4}, {0, 1, 0, 0})},
        outputs{Tensor(DataType::F32, {1, 4})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    LayerNormInfo info{1, 0.5f, false, true, false};
    auto found = candidates(info, request_of(in, results, Isa::Scalar, 1));
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.back(), inputs, outputs, packs, pool);
    float const expected[]{-1, 0.5f, 0, 1.5f};  // mean 3, variance 3.5
    for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(outputs[0].as<float>()[i], expected[i]);
}

TEST(LayerNorm, CandidatesAgree) {
    std::mt19937 random(seed_of(41));
    struct Case {
        Dims dims;
        int64_t axis;
        Dims scale;
    };
    Case const cases[]{{{7, 129}, 1, {129}},      {{3, 5, 768}, 2, {768}}, {{2, 3, 5, 7}, 2, {5, 7}}, {{4, 1}, 1, {1}},
                       {{33, 20}, 1, {1}},        {{2, 4099}, 1, {4099}},  {{700, 1}, 1, {1}},        {{83, 3}, 1, {3}},
                       {{1100, 2, 2}, 1, {2, 2}}, {{19, 48}, 1, {48}},     {{90, 31}, 1, {1}}};
    for (auto const& c : cases)
        for (int bits = 0; bits < 16; ++bits) {
            LayerNormInfo info{c.axis, 1e-5f, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
            if ((bits & 8) && !info.residual) continue;
            auto x = random_f32(c.dims, random);
            for (int64_t i = 0; i < x.desc.count(); ++i) x.as<float>()[i] += 2;
            std::vector<Tensor> inputs{x, random_f32(c.scale, random)}, outputs{x};
            if (info.has_bias) inputs.push_back(random_f32(c.scale, random));
            if (info.residual) inputs.push_back(random_f32(c.dims, random));
            if (bits & 8) outputs.push_back(x);
            check_floats(info, inputs, outputs, kTolerance);
        }
}

TEST(LayerNorm, NarrowResults) {
    if (!has_rounded()) GTEST_SKIP() << "this processor does not round to bf16";
    std::mt19937 random(seed_of(42));
    for (auto const& dims : {Dims{7, 129}, Dims{3, 5, 768}, Dims{1, 1}, Dims{33, 20}})
        for (int bits = 0; bits < 8; ++bits) {
            auto size = dims.back();
            LayerNormInfo info{static_cast<int64_t>(dims.size()) - 1, 1e-5f, (bits & 1) != 0, (bits & 2) != 0,
                               (bits & 4) != 0};
            std::vector<Tensor> inputs{random_f32(dims, random), random_f32({size}, random)};
            if (info.has_bias) inputs.push_back(random_f32({size}, random));
            if (info.residual) inputs.push_back(random_f32(dims, random));
            expect_same_narrow("layer_norm:cpu:rows:bf16:avx512bf16", info, inputs, Tensor(DataType::F32, dims),
                               {0, true}, 1 + bits % 3, {}, "layer_norm:cpu:rows:f32:avx512");
        }
}

TEST(LayerNorm, RefusesNarrowResultsOfOthers) {
    Dims const dims{4, 64};
    auto why_not = [&](DataType x, DataType y, Isa isa) {
        auto in = operands_of({Tensor(x, dims), Tensor(x, {64})}), results = operands_of({Tensor(y, dims)});
        auto found = candidates(LayerNormInfo{1}, request_of(in, results, isa, 1));
        EXPECT_TRUE(found.kernels.empty());
        std::string text;
        for (auto const& rejection : found.rejections) text += rejection.reason + "\n";
        return text;
    };
    EXPECT_NE(why_not(DataType::F32, DataType::BF16, Isa::Avx512).find("needs avx512bf16"), std::string::npos);
    EXPECT_NE(why_not(DataType::F64, DataType::BF16, Isa::Avx512Bf16).find("an input is f64"), std::string::npos);
    EXPECT_NE(why_not(DataType::F32, DataType::F16, Isa::Avx512Bf16).find("Y is f16, expected bf16"),
              std::string::npos);
    EXPECT_NE(why_not(DataType::F32, DataType::F64, Isa::Avx512).find("output 0 is f64, expected f32"),
              std::string::npos);
}

}  // namespace
}  // namespace refactor::kernel::test
