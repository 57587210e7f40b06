#include "kernel/ops/random.h"

#include "common/error.h"
#include "random/philox.h"
#include "reduce/kernel_test.h"

#include <algorithm>

namespace refactor::kernel::test {
namespace {

/// The known answers of the authors' library (Random123, kat_vectors).
TEST(Random, PhiloxKnownAnswers) {
    Philox zero(0, 0, 0);
    EXPECT_EQ(std::vector<uint32_t>(zero.words, zero.words + 4),
              (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    Philox ones(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0});
    EXPECT_EQ(std::vector<uint32_t>(ones.words, ones.words + 4),
              (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    Philox pi(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e);
    EXPECT_EQ(std::vector<uint32_t>(pi.words, pi.words + 4),
              (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<std::vector<float>> draw(RandomInfo const& info, int64_t count, int threads, int runs = 1) {
    std::vector<Tensor> inputs, outputs{Tensor(DataType::F32, {count})};
    auto in = operands_of(inputs), out = operands_of(outputs);
    auto found = candidates(info, request_of(in, out, cpu_features().isa, threads));
    PackCache packs;
    ThreadPool pool(threads);
    std::vector<std::vector<float>> result;
    for (int i = 0; i < runs; ++i) {
        run(*found.kernels.front(), inputs, outputs, packs, pool);
        result.emplace_back(outputs[0].as<float>(), outputs[0].as<float>() + count);
    }
    return result;
}

/// Kolmogorov and Smirnov's distance of the sample from `cumulative`.
template <class F>
double distance(std::vector<float> sample, F&& cumulative) {
    std::sort(sample.begin(), sample.end());
    double worst = 0, n = static_cast<double>(sample.size());
    for (size_t i = 0; i < sample.size(); ++i) {
        auto p = cumulative(static_cast<double>(sample[i]));
        worst =
            std::max({worst, std::fabs(p - static_cast<double>(i) / n), std::fabs(static_cast<double>(i + 1) / n - p)});
    }
    return worst;
}

TEST(Random, Distributions) {
    constexpr int64_t kCount = 40001;
    // P(distance > 1.95 / sqrt(n)) is 0.1 %; seeds are fixed.
    auto limit = 1.95 / std::sqrt(static_cast<double>(kCount));
    for (uint64_t seed : {1u, 2u, 3u}) {
        RandomInfo uniform{Distribution::Uniform, -2, 5, seed}, normal{Distribution::Normal, 3, 0.5, seed};
        auto u = draw(uniform, kCount, 1)[0], g = draw(normal, kCount, 1)[0];
        EXPECT_GE(*std::min_element(u.begin(), u.end()), -2);
        EXPECT_LT(*std::max_element(u.begin(), u.end()), 5);
        EXPECT_LT(distance(u, [](double x) { return (x + 2) / 7; }), limit);
        EXPECT_LT(distance(g, [](double x) { return 0.5 * std::erfc(-(x - 3) / 0.5 / std::sqrt(2.)); }), limit);
        // Neighbours are independent: their correlation is below 4 / sqrt(n).
        double sum = 0;
        for (size_t i = 0; i + 1 < g.size(); ++i) sum += static_cast<double>((g[i] - 3) * (g[i + 1] - 3)) / 0.25;
        EXPECT_LT(std::fabs(sum / kCount), 4 / std::sqrt(static_cast<double>(kCount)));
    }
}

TEST(Random, SequenceDependsOnSeedAndRunOnly) {
    RandomInfo info{Distribution::Normal, 0, 1, 17};
    auto first = draw(info, 1001, 1, 3), second = draw(info, 1001, 3, 3);
    EXPECT_EQ(first, second);
    EXPECT_NE(first[0], first[1]);
    EXPECT_NE(first[1], first[2]);
    info.seed = 18;
    EXPECT_NE(draw(info, 1001, 1)[0], first[0]);
    EXPECT_EQ(draw({Distribution::Uniform, 2, 2, 1}, 3, 1)[0], (std::vector<float>{2, 2, 2}));
}

TEST(Random, UpperBoundIsExcludedInSmallTypes) {
    std::vector<Tensor> inputs, outputs{Tensor(DataType::BF16, {4096})};
    auto in = operands_of(inputs), out = operands_of(outputs);
    PackCache packs;
    ThreadPool pool(1);
    auto found = candidates(RandomInfo{}, request_of(in, out, cpu_features().isa, 1));
    run(*found.kernels.front(), inputs, outputs, packs, pool);
    for (int64_t i = 0; i < 4096; ++i) ASSERT_LT(outputs[0].as<uint16_t>()[i], 0x3f80);
}

TEST(Random, MultinomialFrequencies) {
    constexpr int64_t kSamples = 20000;
    std::vector<float> logits{0, std::log(2.f), std::log(5.f), -INFINITY};
    std::vector<Tensor> inputs{Tensor::of(DataType::F32, {1, 4}, logits)},
        outputs{Tensor(DataType::I64, {1, kSamples})};
    auto in = operands_of(inputs), out = operands_of(outputs);
    PackCache packs;
    ThreadPool pool(2);
    auto found = candidates(MultinomialInfo{5}, request_of(in, out, cpu_features().isa, 2));
    run(*found.kernels.front(), inputs, outputs, packs, pool);
    std::vector<double> counts(4);
    for (int64_t i = 0; i < kSamples; ++i) ++counts.at(static_cast<size_t>(outputs[0].as<int64_t>()[i]));
    double chi = 0, expected[]{1. / 8, 2. / 8, 5. / 8};
    for (size_t k = 0; k < 3; ++k) chi += std::pow(counts[k] - expected[k] * kSamples, 2) / (expected[k] * kSamples);
    EXPECT_LT(chi, 13.8);  // 0.1 % at 2 degrees of freedom
    EXPECT_EQ(counts[3], 0);
    inputs[0].as<float>()[1] = NAN, inputs[0].as<float>()[2] = INFINITY;
    EXPECT_THROW(run(*found.kernels.front(), inputs, outputs, packs, pool), InvalidInput);
}

TEST(Random, Refusals) {
    std::vector<Tensor> inputs, outputs{Tensor(DataType::I32, {3})};
    auto in = operands_of(inputs), out = operands_of(outputs);
    EXPECT_TRUE(candidates(RandomInfo{}, request_of(in, out, cpu_features().isa, 1)).kernels.empty());
    inputs = {Tensor(DataType::F32, {2, 3})}, outputs = {Tensor(DataType::F32, {2, 5})};
    in = operands_of(inputs), out = operands_of(outputs);
    EXPECT_TRUE(candidates(MultinomialInfo{}, request_of(in, out, cpu_features().isa, 1)).kernels.empty());
}

}  // namespace
}  // namespace refactor::kernel::test
