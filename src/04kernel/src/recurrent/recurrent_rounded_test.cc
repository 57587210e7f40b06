#include "recurrent/layer_test.h"
#include "reduce/rounded_test.h"

#include <algorithm>

namespace refactor::kernel::test {
namespace {

constexpr char kRounded[] = "recurrent:cpu:packed:bf16:avx512bf16";

RecurrentInfo rounded_info_of(RecurrentCell cell, int64_t hidden, unsigned bits) {
    auto info = info_of(cell, hidden, bits);
    info.may_round = true;
    return info;
}

/// Weights of bf16 whose sums of `terms` products with numbers of at most 1 are about 1 or less.
Tensor random_weights(Dims dims, int64_t terms, std::mt19937& random) {
    auto weights = random_bf16(std::move(dims), random);
    auto scale = std::exp2(-std::ceil(std::log2(std::sqrt(static_cast<float>(std::max<int64_t>(1, terms))))));
    for (int64_t i = 0; i < weights.desc.count(); ++i) weights.as<float>()[i] *= scale;
    return weights;
}

/// X, W, R and the first states are numbers of bf16 already.
Layer layer_of(RecurrentInfo const& info, Sizes s, std::mt19937& random, bool constant = true) {
    return {info,
            s,
            random,
            constant,
            [&](Dims const& dims) { return random_bf16(dims, random); },
            [&](Dims const& dims, int64_t terms) { return random_weights(dims, terms, random); }};
}

/// Sums of up to 300 terms of size about 1/16, and the cell, in f32.
constexpr Tolerance kExact{3e-5, 0};
/// States, which are at most 1 behind the first, lose 2^-9 of their size in each step. A sum of H of them, times
/// weights whose squares add up to 1 or less, is off by about as much, the largest of some thousands by four times
/// that; gates are contracting, so that a step keeps less than half of it.
constexpr Tolerance kSteps{8 * 0x1p-9, 0};

void check(RecurrentInfo const& info, Sizes s, std::mt19937& random, Tolerance tolerance, bool constant = true) {
    auto layer = layer_of(info, s, random, constant);
    auto others = check_candidates(
        info, layer.inputs, layer.outputs, tolerance,
        "S" + std::to_string(s.steps) + " N" + std::to_string(s.batch) + " I" + std::to_string(s.inputs));
    auto tiles = tile_candidates(info, s, true) + tile_candidates(info, s, false);
    EXPECT_EQ(others, (has_rounded() ? 3 : wide_levels(cpu_features().isa)) + tiles);
}

constexpr auto kCells = {RecurrentCell::Rnn, RecurrentCell::Gru, RecurrentCell::Lstm};

TEST(RoundedRecurrent, CandidatesAgree) {
    std::mt19937 random(seed_of(181));
    for (auto cell : kCells)
        for (int i = 0; i < 60; ++i) {
            auto pick = [&](unsigned n) { return static_cast<int64_t>(1 + random() % n); };
            Sizes s{pick(11), pick(9), pick(37), i % 4 ? pick(70) : pick(150)};
            check(rounded_info_of(cell, s.hidden, static_cast<unsigned>(random())), s, random, kSteps, random() % 4);
            if (testing::Test::HasFailure()) return;
        }
}

/// Of one step only r ∘ h of a GRU is rounded.
TEST(RoundedRecurrent, OneStepIsExact) {
    std::mt19937 random(seed_of(182));
    for (auto cell : kCells)
        for (int i = 0; i < 40; ++i) {
            auto pick = [&](unsigned n) { return static_cast<int64_t>(1 + random() % n); };
            Sizes s{1, i % 2 ? pick(20) : 1, pick(90), pick(200)};
            auto bits = static_cast<unsigned>(random()) | (cell == RecurrentCell::Gru ? 256 : 0);
            check(rounded_info_of(cell, s.hidden, bits), s, random, kExact);
            if (testing::Test::HasFailure()) return;
        }
}

TEST(RoundedRecurrent, LongSequencesAndLargeBatches) {
    std::mt19937 random(seed_of(183));
    for (auto cell : kCells)
        for (auto s : {Sizes{300, 1, 5, 24}, Sizes{3, 50, 40, 33}, Sizes{9, 1, 30, 260}, Sizes{4, 2, 3, 200}})
            for (unsigned bits : {0u, 3u, 64u + 8u, 256u + 2u, 16u + 1u + 32u}) {
                check(rounded_info_of(cell, s.hidden, bits), s, random, kSteps);
                if (testing::Test::HasFailure()) return;
            }
}

/// States that are integers up to 4 stay what they are: nothing is lost from step to step.
TEST(RoundedRecurrent, StatesOfFewBitsStayExact) {
    std::mt19937 random(seed_of(184));
    for (auto s : {Sizes{40, 1, 3, 37}, Sizes{25, 5, 7, 90}})
        for (unsigned bits : {0u, 1u + 64u, 2u + 4u, 16u + 1u}) {
            auto info = rounded_info_of(RecurrentCell::Rnn, s.hidden, bits);
            info.clip = 4;
            for (auto& activation : info.activations) activation.function = CellFunction::Relu;
            auto layer = layer_of(info, s, random);
            for (size_t i : {0, 1, 2})
                for (int64_t k = 0; k < layer.inputs[i].desc.count(); ++k)
                    layer.inputs[i].as<float>()[k] = static_cast<float>(random() % 3) - 1;
            check_candidates(info, layer.inputs, layer.outputs, {});
        }
}

TEST(RoundedRecurrent, EmptySequencesAndBatches) {
    std::mt19937 random(seed_of(185));
    for (auto s : {Sizes{0, 2, 3, 4}, Sizes{3, 0, 3, 4}, Sizes{2, 2, 0, 4}})
        check(rounded_info_of(RecurrentCell::Lstm, 4, 8 + 32 + 64), s, random, kSteps);
}

TEST(RoundedRecurrent, RoundsInputsWeightsAndStates) {
    if (!has_rounded()) GTEST_SKIP() << "this processor has no products of bf16";
    auto info = rounded_info_of(RecurrentCell::Rnn, 1, 32);
    info.activations = {{CellFunction::Affine, 1, 0}};
    // 1 + 2^-8, halfway between two numbers of bf16, is rounded to the even one, 1.
    constexpr float kTie = 1 + 0x1p-8f;
    auto one = [](Dims const& dims, float x) {
        return Tensor::of<float>(DataType::F32, dims, std::vector(static_cast<size_t>(element_count(dims)), x));
    };
    std::vector<Tensor> inputs{one({2, 1, 1}, kTie), one({1, 1, 1}, -2 * kTie), one({1, 1, 1}, 2 * kTie),
                               one({1, 1, 1}, kTie)};
    inputs[1].as_constant(), inputs[2].as_constant();
    inputs[0].as<float>()[1] = 0;
    std::vector<Tensor> outputs{Tensor(DataType::F32, {2, 1, 1, 1})};
    auto in = operands_of(inputs), out = operands_of(outputs);
    auto found = candidates(info, request_of(in, out, cpu_features().isa, 1));
    auto kernel = std::find_if(found.kernels.begin(), found.kernels.end(), [](auto& k) { return k->id() == kRounded; });
    ASSERT_NE(kernel, found.kernels.end());
    PackCache packs;
    ThreadPool pool(1);
    run(**kernel, inputs, outputs, packs, pool);
    EXPECT_EQ(outputs[0].as<float>()[0], 0);
    inputs[0].as<float>()[0] = 0, inputs[3].as<float>()[0] = 0.5f, inputs[0].as<float>()[1] = -kTie;
    run(**kernel, inputs, outputs, packs, pool);
    EXPECT_EQ(outputs[0].as<float>()[0], 1);
    EXPECT_EQ(outputs[0].as<float>()[1], 4);
}

TEST(RoundedRecurrent, RefusesWhatDoesNotFit) {
    struct {
        bool may_round, quantized;
        DataType x;
        Isa isa;
        char const* why;
    } const cases[]{{false, false, DataType::F32, Isa::Avx512Bf16, "operands may not be rounded to bf16"},
                    {true, false, DataType::F32, Isa::Avx512Vnni, "needs avx512bf16, allowed is avx512vnni"},
                    {true, true, DataType::F32, Isa::Avx512Bf16, "weights are bytes, expected f32"},
                    {true, false, DataType::F64, Isa::Avx512Bf16, "X is f64, expected f32"}};
    std::mt19937 random(seed_of(186));
    for (auto const& c : cases) {
        auto info = rounded_info_of(RecurrentCell::Lstm, 6, 0);
        auto layer = layer_of(info, {2, 3, 5, 6}, random);
        info.may_round = c.may_round, info.quantized = c.quantized;
        auto in = operands_of(layer.inputs), out = operands_of(layer.outputs);
        in[0].dtype = c.x;
        auto found = candidates(info, request_of(in, out, c.isa, 1));
        std::string text;
        for (auto const& rejection : found.rejections) text += rejection.reason + "\n";
        EXPECT_NE(text.find(std::string(kRounded) + ": " + c.why), std::string::npos) << c.why << " is not in\n"
                                                                                      << text;
    }
}

}  // namespace
}  // namespace refactor::kernel::test
