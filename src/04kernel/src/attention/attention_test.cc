#include "attention/attention_cases.h"

#include <limits>

namespace refactor::kernel::test {
namespace {

TEST(Attention, ReferenceWeighsValues) {
    std::vector<Tensor> inputs{Tensor::of<float>(DataType::F32, {1, 1, 1, 2}, {1, 0}),
                               Tensor::of<float>(DataType::F32, {1, 1, 2, 2}, {0, 5, std::log(3.f), 7}),
                               Tensor::of<float>(DataType::F32, {1, 1, 2, 1}, {4, 8})},
        outputs{Tensor(DataType::F32, {1, 1, 1, 1})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(AttentionInfo{}, request_of(in, results, Isa::Scalar, 1));
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.back(), inputs, outputs, packs, pool);
    EXPECT_FLOAT_EQ(*outputs[0].as<float>(), 7);  // weights 1/4 and 3/4
}

TEST(Attention, ReferenceCapsScores) {
    std::vector<Tensor> inputs{Tensor::of<float>(DataType::F32, {1, 1, 1, 1}, {1}),
                               Tensor::of<float>(DataType::F32, {1, 1, 2, 1}, {0, 3 * std::atanh(std::log(3.f) / 3)}),
                               Tensor::of<float>(DataType::F32, {1, 1, 2, 1}, {4, 8})},
        outputs{Tensor(DataType::F32, {1, 1, 1, 1})};
    AttentionInfo info;
    info.softcap = 3;
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(info, request_of(in, results, Isa::Scalar, 1));
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.back(), inputs, outputs, packs, pool);
    EXPECT_FLOAT_EQ(*outputs[0].as<float>(), 7);  // weights 1/4 and 3/4
}

TEST(Attention, CandidatesAgree) {
    std::mt19937 random(seed_of(91));
    for (auto const& c : kCases)
        for (int bits = 0; bits < 8; ++bits) {
            AttentionInfo info;
            info.causal = bits & 1, info.k_transposed = bits & 2, info.nan_to_zero = bits & 4;
            check(c, info, random, {});
        }
}

TEST(Attention, CandidatesAgreeOnCaps) {
    std::mt19937 random(seed_of(95));
    for (auto const& c : kCases)
        for (int bits = 0; bits < 8; ++bits) {
            AttentionInfo info;
            info.causal = bits & 1, info.has_mask = bits & 2, info.softcap = bits & 4 ? 0.75f : 20;
            Tensor mask(DataType::Bool, {c.queries, c.keys});
            for (int64_t i = 0; i < mask.desc.count(); ++i) mask.as<bool>()[i] = random() % 4;
            auto masks = info.has_mask ? std::vector{mask} : std::vector<Tensor>{};
            check(c, info, random, masks), check(c, info, random, masks, -0.3f);
        }
}

/// Sinks that dominate, that vanish and that are absent.
Tensor random_sinks(int64_t heads, std::mt19937& random) {
    Tensor sinks(DataType::F32, {heads});
    for (int64_t h = 0; h < heads; ++h) {
        auto draw = random() % 5;
        sinks.as<float>()[h] = draw == 0 ? -INFINITY : draw == 1 ? -200.f : static_cast<float>(draw) * 3 - 9;
    }
    return sinks;
}

TEST(Attention, CandidatesAgreeOnSinks) {
    std::mt19937 random(seed_of(94));
    for (auto const& c : kCases)
        for (int bits = 0; bits < 16; ++bits) {
            AttentionInfo info;
            info.causal = bits & 1, info.nan_to_zero = bits & 2, info.has_mask = bits & 4, info.k_transposed = bits & 8;
            info.has_sinks = true;
            std::vector<Tensor> others;
            if (info.has_mask) {
                Tensor mask(DataType::F32, {c.queries, c.keys});
                for (int64_t i = 0; i < mask.desc.count(); ++i)
                    mask.as<float>()[i] = random() % 4 ? static_cast<float>(random() % 7) - 3 : -INFINITY;
                others.push_back(mask);
            }
            others.push_back(random_sinks(c.heads, random));
            check(c, info, random, others);
        }
}

TEST(Attention, SinkTakesWeight) {
    std::vector<Tensor> inputs{Tensor::of<float>(DataType::F32, {1, 1, 1, 2}, {1, 0}),
                               Tensor::of<float>(DataType::F32, {1, 1, 2, 2}, {0, 5, std::log(3.f), 7}),
                               Tensor::of<float>(DataType::F32, {1, 1, 2, 1}, {4, 8}),
                               Tensor::of<float>(DataType::F32, {1}, {std::log(6.f)})},
        outputs{Tensor(DataType::F32, {1, 1, 1, 1})};
    AttentionInfo info;
    info.has_sinks = true;
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(info, request_of(in, results, Isa::Scalar, 1));
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.back(), inputs, outputs, packs, pool);
    EXPECT_FLOAT_EQ(*outputs[0].as<float>(), 2.8f);  // weights 1, 3 and 6 of 10
}

/// Scores that grow by 0, by a little and by a lot from key to key, in all blocks of keys.
TEST(Attention, MaximumGrows) {
    std::mt19937 random(seed_of(95));
    for (float growth : {0.f, 0.002f, 0.02f, 0.5f, -0.02f}) {
        AttentionInfo info;
        info.has_mask = true;
        Tensor mask(DataType::F32, {1, 1700});
        for (int64_t i = 0; i < 1700; ++i) mask.as<float>()[i] = growth * static_cast<float>(i - 1699);
        check({1, 2, 2, 13, 1700, 16, 16}, info, random, {mask});
    }
}

/// The first output of every kernel that takes so many keys.
void expect_outputs(AttentionInfo const& info, std::vector<Tensor>& inputs, double expected, double tolerance) {
    std::vector<Tensor> outputs{Tensor(DataType::F32, {1, 1, 1, inputs[2].desc.dims[3]})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(info, request_of(in, results, cpu_features().isa, 1));
    PackCache packs;
    ThreadPool pool(1);
    Descriptions of(inputs, outputs);
    for (auto const& kernel : found.kernels) {
        if (!kernel->estimate({of.in, of.out, {}, packs, 1}).ok()) continue;
        run(*kernel, inputs, outputs, packs, pool);
        EXPECT_NEAR(*outputs[0].as<float>(), expected, tolerance * std::abs(expected)) << kernel->id();
    }
}

/// Rows whose keys are all hidden by one large number, and, without a mask, queries and keys whose products are large.
TEST(Attention, LargeScoresWeighAllKeysAlike) {
    constexpr int64_t kKeys = 19;
    for (float size : {1e4f, 1e9f, 2.3e9f, 1e12f, 7e15f, 3e25f, 1e37f})
        for (bool masked : {true, false}) {
            std::vector<Tensor> inputs;
            for (int64_t rows : {int64_t{1}, kKeys, kKeys}) inputs.emplace_back(DataType::F32, Dims{1, 1, rows, 8});
            AttentionInfo info;
            info.has_mask = masked, info.scale = 0.1f;
            for (int64_t i = 0; i < kKeys; ++i) inputs[2].as<float>()[8 * i] = static_cast<float>(i);
            if (masked) inputs.emplace_back(DataType::F32, Dims{1, kKeys});
            if (masked) std::fill_n(inputs[3].as<float>(), kKeys, -size);
            for (size_t k = 0; !masked && k < 2; ++k)
                std::fill_n(inputs[k].as<float>(), inputs[k].desc.count(), std::sqrt(size) / 1.7f);
            expect_outputs(info, inputs, (kKeys - 1) / 2., 1e-5);
        }
}

/// What lies in a cache behind the keys that are shown, and what is hidden among them, may be anything.
TEST(Attention, HiddenKeysMayBeNoNumbers) {
    constexpr int64_t kKeys = 700;
    for (int64_t shown : {1, 10, 21, 512, 530}) {
        std::vector<Tensor> inputs{Tensor(DataType::F32, {1, 1, 1, 8}), Tensor(DataType::F32, {1, 1, kKeys, 8}),
                                   Tensor(DataType::F32, {1, 1, kKeys, 8}), Tensor(DataType::Bool, {1, kKeys})};
        for (int64_t i = 0; i < kKeys; ++i) {
            inputs[3].as<bool>()[i] = i < shown;
            for (int64_t d = 0; d < 8; ++d) {
                inputs[1].as<float>()[8 * i + d] = i < shown ? 0 : NAN;
                inputs[2].as<float>()[8 * i + d] = i < shown ? static_cast<float>(i) : INFINITY;
            }
        }
        AttentionInfo info;
        info.has_mask = true;
        if (shown > 5) inputs[1].as<float>()[8 * 5] = NAN, inputs[3].as<bool>()[5] = false;
        auto count = static_cast<double>(shown), sum = count * (count - 1) / 2;
        expect_outputs(info, inputs, shown > 5 ? (sum - 5) / (count - 1) : sum / count, 1e-5);
    }
}

/// Blocks of keys whose largest scores are compared in different ways.
TEST(Attention, ScoresPassTheSizeWhereDifferencesComeFirst) {
    constexpr int64_t kKeys = 1700;
    std::vector<Tensor> inputs{Tensor(DataType::F32, {1, 1, 1, 8}), Tensor(DataType::F32, {1, 1, kKeys, 8}),
                               Tensor(DataType::F32, {1, 1, kKeys, 8}), Tensor(DataType::F32, {1, kKeys})};
    double sum = 0, weighted = 0;
    for (int64_t i = 0; i < kKeys; ++i) {
        auto mask = static_cast<float>(i - 800) / 256 - 4096, value = static_cast<float>(i);
        inputs[3].as<float>()[i] = mask, inputs[2].as<float>()[8 * i] = value;
        auto weight = std::exp(static_cast<double>(mask) + 4096);
        sum += weight, weighted += weight * static_cast<double>(value);
    }
    AttentionInfo info;
    info.has_mask = true;
    expect_outputs(info, inputs, weighted / sum, 2e-5);
}

TEST(Attention, NegativeScale) {
    std::mt19937 random(seed_of(97));
    for (bool masked : {false, true}) {
        AttentionInfo info;
        info.has_mask = masked;
        Tensor mask(DataType::F32, {9, 600});
        for (int64_t i = 0; i < 9 * 600; ++i) mask.as<float>()[i] = static_cast<float>(random() % 5) - 2;
        check({1, 2, 2, 9, 600, 16, 16}, info, random, masked ? std::vector{mask} : std::vector<Tensor>{}, -0.3f);
    }
}

/// [batch, heads, rows, row] of what lies at `place`.
Tensor copy_of(Tensor const& from, AttentionPlace const& place, Dims const& dims) {
    Tensor copy(DataType::F32, dims);
    int64_t i = 0;
    for (int64_t b = 0; b < dims[0]; ++b)
        for (int64_t h = 0; h < dims[1]; ++h)
            for (int64_t r = 0; r < dims[2]; ++r)
                for (int64_t d = 0; d < dims[3]; ++d)
                    copy.as<float>()[i++] = from.as<float>()[place.at(b, h) + r * place.row + d];
    return copy;
}

Tensor reference_of(AttentionInfo const& info, std::vector<Tensor> inputs, Dims const& dims,
                    std::span<int64_t const> params) {
    std::vector<Tensor> outputs{Tensor(DataType::F32, dims)};
    auto in = operands_of(inputs), results = operands_of(outputs);
    PackCache packs;
    ThreadPool pool(1);
    run(*candidates(info, request_of(in, results, Isa::Scalar, 1)).kernels.back(), inputs, outputs, packs, pool,
        params);
    return outputs[0];
}

/// Q, K and V side by side in one tensor [B, T, all], Y [B, S, H, D], as a product leaves and takes them.
TEST(Attention, PackedOperands) {
    std::mt19937 random(seed_of(98));
    for (auto const& c : kCases) {
        if (c.queries > c.keys) continue;
        auto k_first = c.heads * c.depth, v_first = k_first + c.kv_heads * c.depth;
        auto width = v_first + c.kv_heads * c.value_depth, row = c.heads * c.value_depth;
        AttentionPlace const q{0, c.keys * width, c.depth, width}, k{k_first, q.batch, c.depth, width},
            v{v_first, q.batch, c.value_depth, width}, y{0, c.queries * row, c.value_depth, row};
        std::vector<int64_t> params{c.batch, c.heads, c.kv_heads, c.queries, c.keys, c.depth, c.value_depth};
        for (auto const& place : {q, k, v, y})
            params.insert(params.end(), {place.first, place.batch, place.head, place.row});
        for (int bits = 0; bits < 4; ++bits) {
            AttentionInfo info;
            info.causal = bits & 1, info.has_mask = bits & 2;
            info.scale = 1 / std::sqrt(static_cast<float>(c.depth));
            auto packed = random_f32({c.batch, c.keys, width}, random);
            std::vector<Tensor> whole{copy_of(packed, q, {c.batch, c.heads, c.queries, c.depth}),
                                      copy_of(packed, k, {c.batch, c.kv_heads, c.keys, c.depth}),
                                      copy_of(packed, v, {c.batch, c.kv_heads, c.keys, c.value_depth})},
                views(3, packed);
            auto mask = random_f32({c.queries, c.keys}, random);
            if (info.has_mask) whole.push_back(mask), views.push_back(mask);
            Dims const y_dims{c.batch, c.heads, c.queries, c.value_depth};
            auto expected = reference_of(info, whole, y_dims, {});
            info.views = true;
            auto actual = reference_of(info, views, {c.batch, c.queries, row}, params);
            expect_close(copy_of(actual, y, y_dims), expected, {}, "the reference");
            check_candidates(info, views, {actual}, kTolerance, "", params);
        }
    }
}

TEST(Attention, RefusesViewsOutsideOfTensors) {
    AttentionInfo info;
    info.views = true;
    std::vector<Tensor> inputs(3, Tensor(DataType::F32, {2, 3, 8})), outputs{Tensor(DataType::F32, {2, 3, 8})};
    std::vector<int64_t> const fits{2, 2, 2, 3, 3, 4, 4, 0, 24, 4, 8, 0, 24, 4, 8, 0, 24, 4, 8, 0, 24, 4, 8};
    for (size_t i = 0; i < fits.size(); ++i) {
        auto params = fits;
        ++params[i];
        auto in = operands_of(inputs), results = operands_of(outputs);
        Descriptions of(inputs, outputs);
        PackCache packs;
        for (auto const& kernel : candidates(info, request_of(in, results, cpu_features().isa, 1)).kernels) {
            EXPECT_TRUE(kernel->bind({of.in, of.out, fits, packs, 1}).ok()) << kernel->id();
            EXPECT_FALSE(kernel->bind({of.in, of.out, params, packs, 1}).ok()) << kernel->id() << " param " << i;
        }
    }
}

}  // namespace
}  // namespace refactor::kernel::test
