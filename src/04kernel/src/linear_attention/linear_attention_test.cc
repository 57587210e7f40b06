#include "kernel/ops/cache.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

/// The recurrence of one head and one value column, written out: [T, D] keys and queries, [T] values.
struct Column {
    std::vector<double> state;
    bool delta;

    double step(float const* q, float const* k, double v, float const* decay, double beta, double scale) {
        auto depth = state.size();
        for (size_t d = 0; d < depth; ++d) state[d] *= std::exp(static_cast<double>(decay ? decay[d] : 0.f));
        if (delta) {
            for (size_t d = 0; d < depth; ++d) v -= state[d] * static_cast<double>(k[d]);
            v *= beta;
        }
        double y = 0;
        for (size_t d = 0; d < depth; ++d) {
            state[d] += static_cast<double>(k[d]) * v;
            y += static_cast<double>(q[d]) * state[d];
        }
        return scale * y;
    }
};

TEST(LinearAttention, FollowsTheRecurrence) {
    std::mt19937 random(seed_of(95));
    constexpr int64_t kBatch = 2, kSteps = 5, kHeads = 4, kKeys = 2, kDepth = 3, kValues = 5;
    for (int bits = 0; bits < 8; ++bits) {
        LinearAttentionInfo info{kHeads, kKeys, 0.7f, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
        std::vector<Tensor> inputs{random_f32({kBatch, kSteps, kHeads * kDepth}, random),
                                   random_f32({kBatch, kSteps, kKeys * kDepth}, random, 0.5f),
                                   random_f32({kBatch, kSteps, kKeys * kValues}, random)};
        if (info.past) inputs.push_back(random_f32({kBatch, kKeys, kDepth, kValues}, random));
        if (info.decay) inputs.push_back(random_f32({kBatch, kSteps, kKeys * kDepth}, random, 0.3f));
        if (info.delta) inputs.push_back(random_f32({kBatch, kSteps, kKeys}, random, 0.5f));
        std::vector<Tensor> outputs{Tensor(DataType::F32, {kBatch, kSteps, kHeads * kValues}),
                                    Tensor(DataType::F32, {kBatch, kKeys, kDepth, kValues})};
        auto in = operands_of(inputs), out = operands_of(outputs);
        PackCache packs;
        ThreadPool pool(2);
        auto found = candidates(info, request_of(in, out, Isa::Scalar, 2));
        ASSERT_EQ(found.kernels.size(), 1U);
        run(*found.kernels.front(), inputs, outputs, packs, pool);
        auto at = [&](size_t i, int64_t index) { return inputs[i].as<float>() + index; };
        for (int64_t b = 0; b < kBatch; ++b)
            for (int64_t h = 0; h < kHeads; ++h)
                for (int64_t m = 0; m < kValues; ++m) {
                    auto g = h / (kHeads / kKeys);
                    Column column{std::vector<double>(kDepth), info.delta};
                    for (int64_t d = 0; d < kDepth && info.past; ++d)
                        column.state[static_cast<size_t>(d)] =
                            static_cast<double>(*at(3, ((b * kKeys + g) * kDepth + d) * kValues + m));
                    for (int64_t t = 0; t < kSteps; ++t) {
                        auto p = b * kSteps + t;
                        auto const* decay = info.decay ? at(3 + info.past, (p * kKeys + g) * kDepth) : nullptr;
                        auto beta = info.delta
                                        ? static_cast<double>(*at(size_t{3} + info.past + info.decay, p * kKeys + g))
                                        : 1;
                        auto wanted = column.step(at(0, (p * kHeads + h) * kDepth), at(1, (p * kKeys + g) * kDepth),
                                                  static_cast<double>(*at(2, (p * kKeys + g) * kValues + m)), decay,
                                                  beta, static_cast<double>(info.scale));
                        // Products of 3 terms over 5 steps in f32.
                        ASSERT_NEAR(static_cast<double>(outputs[0].as<float>()[(p * kHeads + h) * kValues + m]), wanted,
                                    1e-5 * (1 + std::fabs(wanted)))
                            << info.attributes();
                    }
                }
    }
}

TEST(LinearAttention, CandidatesAgree) {
    std::mt19937 random(seed_of(96));
    struct {
        int64_t batch, steps, heads, kv_heads, depth, values;
    } const cases[]{
        {1, 1, 2, 2, 128, 128}, {2, 7, 4, 2, 19, 33}, {1, 5, 2, 6, 64, 96}, {1, 3, 1, 1, 3, 5}, {1, 0, 2, 2, 16, 16}};
    for (auto const& c : cases)
        for (int bits = 0; bits < 16; ++bits) {
            LinearAttentionInfo info{c.heads, c.kv_heads, 0.7f, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
            bool each = (bits & 8) != 0;
            // Keys of length 1, as for the delta rule.
            auto key = static_cast<float>(1 / std::sqrt(static_cast<double>(c.depth)));
            std::vector<Tensor> inputs{random_f32({c.batch, c.steps, c.heads * c.depth}, random),
                                       random_f32({c.batch, c.steps, c.kv_heads * c.depth}, random, key),
                                       random_f32({c.batch, c.steps, c.kv_heads * c.values}, random)};
            if (info.past) inputs.push_back(random_f32({c.batch, c.kv_heads, c.depth, c.values}, random));
            if (info.decay)
                inputs.push_back(random_f32({c.batch, c.steps, c.kv_heads * (each ? c.depth : 1)}, random, 0.3f));
            if (info.delta) inputs.push_back(random_f32({c.batch, c.steps, each ? 1 : c.kv_heads}, random, 0.5f));
            std::vector<Tensor> outputs{
                Tensor(DataType::F32, {c.batch, c.steps, std::max(c.heads, c.kv_heads) * c.values}),
                Tensor(DataType::F32, {c.batch, c.kv_heads, c.depth, c.values})};
            // Sums of 128 products in another order, over 7 steps.
            auto others = check_candidates(info, inputs, outputs, {2e-4, 2e-6});
            EXPECT_GE(others, cpu_features().isa >= Isa::Avx2 ? 1 : 0);
            if (HasFailure()) return;
        }
}

TEST(LinearAttention, Refusals) {
    std::vector<Tensor> inputs{Tensor(DataType::F32, {1, 2, 8}), Tensor(DataType::F32, {1, 2, 3}),
                               Tensor(DataType::F32, {1, 2, 4})};
    std::vector<Tensor> outputs{Tensor(DataType::F32, {1, 2, 8}), Tensor(DataType::F32, {1, 1, 4, 4})};
    auto in = operands_of(inputs), out = operands_of(outputs);
    LinearAttentionInfo info{2, 1, 1, false, false, false};
    auto found = candidates(info, request_of(in, out, Isa::Scalar, 1));
    TensorDesc const *operands[]{&inputs[0].desc, &inputs[1].desc, &inputs[2].desc},
        *results[]{&outputs[0].desc, &outputs[1].desc};
    PackCache packs;
    EXPECT_FALSE(found.kernels.front()->bind({operands, results, {}, packs, 1}).ok());
    in[2].dtype = DataType::F16;
    EXPECT_TRUE(candidates(info, request_of(in, out, Isa::Scalar, 1)).kernels.empty());
}

}  // namespace
}  // namespace refactor::kernel::test
