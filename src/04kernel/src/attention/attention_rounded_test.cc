#include "attention/attention.h"
#include "reduce/rounded_test.h"

namespace refactor::kernel::test {
namespace {

/// Queries, keys and values are numbers of bf16 already. Weights, which are at most 1 and add up to 1, lose 2^-9 of
/// their size; values are at most about 4.
constexpr Tolerance kTolerance{4 * 0x1p-9, 0};

struct Case {
    int64_t batch, heads, kv_heads, queries, keys, depth, value_depth;
};

// Odd depths and keys, one and many blocks of keys, few rows, which are read in place and not rounded.
Case const kCases[]{{1, 2, 2, 5, 7, 8, 8},       {2, 3, 3, 37, 65, 64, 64},  {1, 4, 2, 1, 131, 64, 64},
                    {1, 2, 1, 129, 129, 31, 48}, {1, 6, 2, 13, 77, 80, 72},  {2, 2, 2, 70, 301, 23, 20},
                    {1, 2, 1, 53, 1101, 16, 24}, {1, 4, 2, 7, 1300, 33, 31}, {1, 1, 1, 61, 600, 64, 128},
                    {1, 2, 2, 66, 131, 40, 80},  {1, 1, 1, 70, 2101, 80, 40}};

int check(Case const& c, AttentionInfo info, std::mt19937& random, std::vector<Tensor> const& others, float sign = 1) {
    info.scale = sign / std::sqrt(static_cast<float>(c.depth)), info.may_round = true;
    auto keys =
        info.k_transposed ? Dims{c.batch, c.kv_heads, c.depth, c.keys} : Dims{c.batch, c.kv_heads, c.keys, c.depth};
    std::vector<Tensor> inputs{random_bf16({c.batch, c.heads, c.queries, c.depth}, random), random_bf16(keys, random),
                               random_bf16({c.batch, c.kv_heads, c.keys, c.value_depth}, random)};
    inputs.insert(inputs.end(), others.begin(), others.end());
    return check_candidates(info, inputs, {Tensor(DataType::F32, {c.batch, c.heads, c.queries, c.value_depth})},
                            kTolerance);
}

TEST(RoundedAttention, CandidatesAgree) {
    std::mt19937 random(seed_of(191));
    for (auto const& c : kCases)
        for (int bits = 0; bits < 8; ++bits) {
            AttentionInfo info;
            info.causal = bits & 1, info.k_transposed = bits & 2, info.has_mask = bits & 4;
            Tensor mask(bits & 1 ? DataType::Bool : DataType::F32, {c.batch, 1, c.queries, c.keys});
            for (int64_t i = 0; i < mask.desc.count(); ++i)
                if (bits & 1)
                    mask.as<bool>()[i] = random() % 4;
                else
                    mask.as<float>()[i] = random() % 4 ? 0.5f : -INFINITY;
            auto others = check(c, info, random, info.has_mask ? std::vector{mask} : std::vector<Tensor>{});
            // Those of few keys do not round.
            auto of_few_keys = c.keys < 16 && !info.causal ? wide_levels(cpu_features().isa) : 0;
            EXPECT_EQ(others, wide_levels(cpu_features().isa) + rounded_levels() + of_few_keys);
            if (testing::Test::HasFailure()) return;
        }
}

/// What stands between the products: a cap, numbers beside the scores, a scale below zero, which turns the largest
/// score into the smallest, and keys that nobody sees.
TEST(RoundedAttention, ScoresAreChanged) {
    std::mt19937 random(seed_of(193));
    for (auto const& c : {Case{1, 2, 1, 70, 131, 40, 80}, Case{1, 1, 1, 33, 2101, 16, 16}})
        for (int what = 0; what < 4; ++what) {
            AttentionInfo info;
            info.softcap = what == 0 ? 2.f : 0.f, info.has_sinks = what == 1;
            info.has_mask = info.unseen_to_zero = what == 2;
            std::vector<Tensor> others;
            if (info.has_sinks) others.push_back(random_f32({c.heads}, random));
            if (info.has_mask) {
                Tensor& mask = others.emplace_back(DataType::Bool, Dims{1, 1, c.queries, c.keys});
                for (int64_t i = 0; i < mask.desc.count(); ++i)
                    mask.as<bool>()[i] = i / c.keys % 3 && (c.keys < 1000 || i % c.keys >= 1500);
            }
            check(c, info, random, others, what == 3 ? -1.f : 1.f);
            if (testing::Test::HasFailure()) return;
        }
}

TEST(RoundedAttention, QueriesThatAreNotFinite) {
    std::mt19937 random(seed_of(194));
    AttentionInfo info;
    info.may_round = true, info.scale = 0.125f;
    for (int64_t keys : {77, 2101}) {
        std::vector<Tensor> inputs{random_bf16({1, 1, 90, 40}, random), random_bf16({1, 1, keys, 40}, random),
                                   random_bf16({1, 1, keys, 48}, random)};
        for (int64_t row : {0, 17, 63, 89}) inputs[0].as<float>()[row * 40 + row % 40] = NAN;
        check_candidates(info, inputs, {Tensor(DataType::F32, {1, 1, 90, 48})}, kTolerance);
    }
}

TEST(RoundedAttention, HiddenKeysMayHoldAnything) {
    std::mt19937 random(seed_of(192));
    AttentionInfo info;
    info.causal = info.may_round = true;
    // Of an odd number of keys that a row sees, the next one shares a pair with the last.
    for (int64_t queries : {15, 16, 40}) {
        Dims const dims{1, 2, queries, 32};
        std::vector<Tensor> inputs{random_bf16(dims, random), random_bf16(dims, random), random_bf16(dims, random)};
        for (size_t i : {1, 2})
            for (int64_t head = 0; head < 2; ++head)
                for (int64_t d = 0; d < 32; ++d)
                    inputs[i].as<float>()[((head + 1) * queries - 1) * 32 + d] = d % 2 ? NAN : INFINITY;
        check_candidates(info, inputs, {Tensor(DataType::F32, dims)}, kTolerance);
    }
}

/// Few rows of a part read keys and values of f32 in place, and do not round them.
TEST(RoundedAttention, NarrowOperands) {
    if (!has_rounded()) GTEST_SKIP() << "this processor has no products of bf16";
    std::mt19937 random(seed_of(195));
    for (auto const& c : kCases)
        for (int bits = 0; bits < 16; ++bits) {
            NarrowOnes narrow{bits & 1 ? 3U : 0U, !(bits & 1) || (bits & 2)};
            AttentionInfo info;
            info.may_round = true, info.scale = 0.25f, info.k_transposed = bits & 4, info.causal = bits & 8;
            info.has_sinks = bits & 8;
            auto keys = info.k_transposed ? Dims{c.batch, c.kv_heads, c.depth, c.keys}
                                          : Dims{c.batch, c.kv_heads, c.keys, c.depth};
            std::vector<Tensor> inputs{random_bf16({c.batch, c.heads, c.queries, c.depth}, random),
                                       random_bf16(keys, random),
                                       random_bf16({c.batch, c.kv_heads, c.keys, c.value_depth}, random)};
            if (info.has_sinks) inputs.push_back(random_f32({c.heads}, random));
            Tensor const y(DataType::F32, {c.batch, c.heads, c.queries, c.value_depth});
            for (auto const* id : {"attention:cpu:tiled:bf16:avx512bf16", "attention:cpu:tiled:bf16:avx512amx"}) {
                if (cpu_features().isa < Isa::Avx512Amx && std::string_view(id).ends_with("amx")) continue;
                expect_same_narrow(id, info, inputs, y, narrow, 1 + bits % 3, kTolerance);
            }
            if (testing::Test::HasFailure()) return;
        }
}

/// Few rows, for which keys and values of f32 are not rounded, and rows that are computed again.
TEST(RoundedAttention, NarrowOperandsAgreeWithTheReference) {
    if (!has_rounded()) GTEST_SKIP() << "this processor has no products of bf16";
    std::mt19937 random(seed_of(196));
    for (auto const& c : kCases)
        for (bool odd_values : {false, true}) {
            AttentionInfo info;
            info.causal = info.may_round = true, info.scale = 0.125f;
            std::vector<Tensor> inputs{random_bf16({c.batch, c.heads, c.queries, c.depth}, random),
                                       random_bf16({c.batch, c.kv_heads, c.keys, c.depth}, random),
                                       random_bf16({c.batch, c.kv_heads, c.keys, c.value_depth}, random)};
            if (odd_values)
                for (int64_t i = 0; i < inputs[2].desc.count(); i += 97) inputs[2].as<float>()[i] = INFINITY;
            std::vector<Tensor> expected{Tensor(DataType::F32, {c.batch, c.heads, c.queries, c.value_depth})},
                outputs = expected;
            run_by("attention:cpu:reference:f32", info, inputs, expected, 1);
            for (auto& input : inputs) input = narrowed(input);
            run_by("attention:cpu:tiled:bf16:avx512bf16", info, inputs, outputs, 2);
            expect_close(outputs[0], expected[0], kTolerance, "narrow");
            if (testing::Test::HasFailure()) return;
        }
}

TEST(RoundedAttention, RefusesNarrowOperands) {
    struct {
        DataType q, k, y;
        char const* why;
    } const cases[]{{DataType::BF16, DataType::F32, DataType::F32, "input 1 is f32, expected bf16"},
                    {DataType::F32, DataType::BF16, DataType::F32, "input 1 is bf16, expected f32"},
                    {DataType::F32, DataType::F32, DataType::F16, "output 0 is f16, expected f32"}};
    for (auto const& c : cases) {
        AttentionInfo info;
        info.may_round = true;
        Dims const dims{1, 2, 20, 8};
        auto in = operands_of({Tensor(c.q, dims), Tensor(c.k, dims), Tensor(c.q, dims)});
        auto results = operands_of({Tensor(c.y, dims)});
        auto found = candidates(info, request_of(in, results, Isa::Avx512Bf16, 1));
        EXPECT_TRUE(found.kernels.empty()) << c.why;
        std::string text;
        for (auto const& rejection : found.rejections) text += rejection.reason + "\n";
        EXPECT_NE(text.find(c.why), std::string::npos) << c.why << " is not in\n" << text;
    }
}

}  // namespace
}  // namespace refactor::kernel::test
