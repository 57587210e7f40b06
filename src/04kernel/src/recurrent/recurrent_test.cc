#include "common/error.h"
#include "recurrent/layer_test.h"

#include <limits>

namespace refactor::kernel::test {
namespace {

Layer layer_of(RecurrentInfo const& info, Sizes s, std::mt19937& random, bool constant) {
    auto scale = 1 / std::sqrt(static_cast<float>(s.hidden));
    return {info,
            s,
            random,
            constant,
            [&](Dims const& dims) { return random_f32(dims, random); },
            [&](Dims const& dims, int64_t) { return random_f32(dims, random, scale); }};
}

/// f32 products of up to 150 terms of size about 1/12 (150 · 6e-8 · 0.1 ≈ 1e-6) are repeated over up to 40 steps; gates
/// are contracting here.
constexpr Tolerance kTolerance{3e-5, 0};

TEST(Recurrent, CandidatesAgree) {
    std::mt19937 random(seed_of(81));
    for (auto cell : {RecurrentCell::Rnn, RecurrentCell::Gru, RecurrentCell::Lstm})
        for (int i = 0; i < 40; ++i) {
            auto pick = [&](unsigned n) { return static_cast<int64_t>(1 + random() % n); };
            Sizes s{pick(11), pick(9), pick(37), i % 4 ? pick(70) : pick(150)};
            auto info = info_of(cell, s.hidden, static_cast<unsigned>(random()));
            auto layer = layer_of(info, s, random, random() % 2);
            check_candidates(info, layer.inputs, layer.outputs, kTolerance);
        }
}

TEST(Recurrent, LongSequencesAndLargeBatches) {
    std::mt19937 random(seed_of(82));
    for (auto cell : {RecurrentCell::Rnn, RecurrentCell::Gru, RecurrentCell::Lstm})
        for (auto s : {Sizes{300, 1, 5, 24}, Sizes{3, 50, 40, 33}, Sizes{9, 1, 30, 260}, Sizes{4, 2, 3, 200}})
            for (unsigned bits : {0u, 3u, 64u + 8u, 256u + 2u, 16u + 1u + 32u}) {
                auto info = info_of(cell, s.hidden, bits);
                auto layer = layer_of(info, s, random, true);
                EXPECT_EQ(check_candidates(info, layer.inputs, layer.outputs, kTolerance),
                          wide_levels(cpu_features().isa) + tile_candidates(info, s, false));
            }
}

TEST(Recurrent, EveryActivation) {
    std::mt19937 random(seed_of(83));
    for (int f = 0; f <= static_cast<int>(CellFunction::Softplus); ++f) {
        auto info = info_of(RecurrentCell::Rnn, 19, 8);
        info.activations = {{static_cast<CellFunction>(f), 0.4f, 0.3f}};
        auto layer = layer_of(info, {5, 3, 7, 19}, random, true);
        check_candidates(info, layer.inputs, layer.outputs, kTolerance);
    }
}

TEST(Recurrent, EmptySequencesAndBatches) {
    std::mt19937 random(seed_of(84));
    for (auto s : {Sizes{0, 2, 3, 4}, Sizes{3, 0, 3, 4}, Sizes{2, 2, 0, 4}}) {
        auto info = info_of(RecurrentCell::Lstm, 4, 8 + 32 + 64);
        auto layer = layer_of(info, s, random, true);
        check_candidates(info, layer.inputs, layer.outputs, kTolerance);
    }
}

/// A state of zeros times NaN is NaN: from the first step on.
TEST(Recurrent, NanInStateWeightsShowsAtOnce) {
    std::mt19937 random(seed_of(86));
    for (auto cell : {RecurrentCell::Rnn, RecurrentCell::Gru, RecurrentCell::Lstm})
        for (int64_t batch : {1, 3})
            for (int64_t hidden : {1, 40}) {
                auto info = info_of(cell, hidden, 8);
                auto layer = layer_of(info, {2, batch, 3, hidden}, random, true);
                auto gates = gates_of(cell);
                layer.inputs[2].as<float>()[(gates - 1) * hidden * hidden] = std::numeric_limits<float>::quiet_NaN();
                check_candidates(info, layer.inputs, layer.outputs, kTolerance);
                auto in = operands_of(layer.inputs), out = operands_of(layer.outputs);
                auto found = candidates(info, request_of(in, out, Isa::Scalar, 1));
                ThreadPool pool(1);
                PackCache packs;
                run(*found.kernels.back(), layer.inputs, layer.outputs, packs, pool);
                EXPECT_TRUE(std::isnan(layer.outputs[0].as<float>()[0]));
            }
}

/// h = tanh(x w + h r + b) by hand.
TEST(Recurrent, FollowsOnnx) {
    auto info = info_of(RecurrentCell::Rnn, 1, 8);
    std::vector<Tensor> inputs{
        Tensor::of<float>(DataType::F32, {2, 1, 1}, {0.5f, -0.25f}), Tensor::of<float>(DataType::F32, {1, 1, 1}, {2}),
        Tensor::of<float>(DataType::F32, {1, 1, 1}, {-1}), Tensor::of<float>(DataType::F32, {1, 2}, {0.125f, 0.25f})};
    std::vector<Tensor> outputs{Tensor(DataType::F32, {2, 1, 1, 1})};
    auto in = operands_of(inputs), out = operands_of(outputs);
    auto found = candidates(info, request_of(in, out, Isa::Scalar, 1));
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.back(), inputs, outputs, packs, pool);
    auto first = std::tanh(0.5 * 2 + 0.375);
    EXPECT_FLOAT_EQ(outputs[0].as<float>()[0], static_cast<float>(first));
    EXPECT_FLOAT_EQ(outputs[0].as<float>()[1], static_cast<float>(std::tanh(-0.25 * 2 - first + 0.375)));
}

TEST(Recurrent, Refusals) {
    std::mt19937 random(seed_of(85));
    auto info = info_of(RecurrentCell::Gru, 6, 8 + 16);
    auto layer = layer_of(info, {24, 2, 5, 6}, random, false);
    ThreadPool pool(1);
    PackCache packs;
    for (auto isa : {Isa::Scalar, cpu_features().isa}) {
        auto in = operands_of(layer.inputs), out = operands_of(layer.outputs);
        for (auto const& kernel : candidates(info, request_of(in, out, isa, 1)).kernels) {
            auto inputs = layer.inputs;
            auto outputs = layer.outputs;
            inputs[4].as<int32_t>()[1] = 25;
            EXPECT_THROW(run(*kernel, inputs, outputs, packs, pool), InvalidInput) << kernel->id();
            inputs = layer.inputs, inputs[2] = random_f32({1, 18, 5}, random);
            std::vector<TensorDesc const*> operands, results{&outputs[0].desc};
            for (auto& t : inputs) operands.push_back(&t.desc);
            auto task = kernel->bind({operands, results, {}, packs, 1});
            ASSERT_FALSE(task.ok()) << kernel->id();
            EXPECT_EQ(task.error().reason, "R is [1, 18, 5], expected [1, 18, 6]");
        }
    }
    auto in = operands_of(layer.inputs), out = operands_of(layer.outputs);
    auto request = request_of(in, out, Isa::Avx512Amx, 1);
    request.precision = Precision::Exact;
    std::string reasons;
    for (auto const& rejection : candidates(info, request).rejections) reasons += rejection.reason + '\n';
    EXPECT_NE(reasons.find("f32:avx512amx: exact precision allows no sums of parts of bf16"), std::string::npos)
        << reasons;
    in[0].dtype = DataType::I32;
    EXPECT_TRUE(candidates(info, request_of(in, out, cpu_features().isa, 1)).kernels.empty());
}

}  // namespace
}  // namespace refactor::kernel::test
