#include "attention/attention_cases.h"

#include <limits>

namespace refactor::kernel::test {
namespace {

TEST(AttentionMasks, CandidatesAgree) {
    std::mt19937 random(seed_of(92));
    for (auto const& c : kCases)
        for (int bits = 0; bits < 8; ++bits)
            for (auto const& dims : {Dims{c.queries, c.keys}, Dims{c.batch, 1, 1, c.keys}, Dims{c.heads, c.queries, 1},
                                     Dims{c.batch, c.heads, c.queries, c.keys}}) {
                AttentionInfo info;
                info.causal = bits & 1, info.nan_to_zero = bits & 2, info.has_mask = true;
                Tensor mask(bits & 4 ? DataType::Bool : DataType::F32, dims);
                for (int64_t i = 0; i < mask.desc.count(); ++i) {
                    auto draw = random() % 4;
                    if (bits & 4)
                        mask.as<bool>()[i] = draw != 0;
                    else
                        mask.as<float>()[i] = draw == 0 ? -INFINITY : draw == 1 ? -16.f : static_cast<float>(draw);
                }
                check(c, info, random, {mask});
            }
}

/// Keys in runs that hardly a row sees: of 0, 1 or all runs of 512 keys, hidden by -inf, by the lowest number or by
/// false.
TEST(AttentionMasks, CandidatesAgreeOnHiddenKeys) {
    std::mt19937 random(seed_of(96));
    for (Case const c : {Case{1, 4, 2, 3, 1600, 16, 16}, Case{2, 2, 2, 70, 1100, 16, 8}})
        for (int bits = 0; bits < 32; ++bits) {
            AttentionInfo info;
            info.causal = bits & 1, info.nan_to_zero = bits & 2, info.has_mask = true, info.has_sinks = bits & 16;
            auto kind = bits / 4 % 4;
            Tensor mask(kind == 0 ? DataType::Bool : DataType::F32, {c.batch, 1, kind == 3 ? 1 : c.queries, c.keys});
            for (int64_t row = 0; row < mask.desc.count() / c.keys; ++row) {
                auto shown = static_cast<int64_t>(random() % 5);  // of 512: 4 is none
                for (int64_t i = 0; i < c.keys; ++i) {
                    bool is_shown = i / 512 == shown && random() % 4;
                    auto at = row * c.keys + i;
                    if (kind == 0)
                        mask.as<bool>()[at] = is_shown;
                    else
                        mask.as<float>()[at] = is_shown    ? 1
                                               : kind == 2 ? std::numeric_limits<float>::lowest()
                                                           : -INFINITY;
                }
            }
            std::vector<Tensor> others{mask};
            if (info.has_sinks) others.push_back(random_f32({c.heads}, random));
            check(c, info, random, others);
        }
}

TEST(AttentionMasks, LowestMaskWeighsAllKeysAlike) {
    std::mt19937 random(seed_of(96));
    AttentionInfo info;
    info.has_mask = true;
    Tensor mask(DataType::F32, {3, 700});
    for (int64_t i = 0; i < 3 * 700; ++i)
        mask.as<float>()[i] = i / 700 != 1 || i % 700 == 650 ? std::numeric_limits<float>::lowest() : -3e38f;
    check({1, 1, 1, 3, 700, 8, 8}, info, random, {mask});
}

TEST(AttentionMasks, RowsWithoutKeys) {
    std::mt19937 random(seed_of(93));
    for (bool zero : {false, true})
        for (bool boolean : {false, true}) {
            AttentionInfo info;
            info.nan_to_zero = zero, info.has_mask = true;
            Tensor mask(boolean ? DataType::Bool : DataType::F32, {20, 70});
            for (int64_t i = 0; i < 20 * 70; ++i) {
                auto masked = i / 70 == 3 || i / 70 == 17 || i % 70 < 66;
                if (boolean)
                    mask.as<bool>()[i] = !masked;
                else
                    mask.as<float>()[i] = masked ? -INFINITY : 0;
            }
            check({1, 2, 2, 20, 70, 32, 32}, info, random, {mask});
        }
}

/// Masks of two windows, of which batches in turn have one.
TEST(AttentionMasks, Repeat) {
    std::mt19937 random(seed_of(98));
    for (Case const c : {Case{6, 3, 3, 49, 49, 32, 32}, Case{2, 4, 2, 5, 700, 16, 8}, Case{4, 1, 1, 1, 9, 8, 8}})
        for (int bits = 0; bits < 4; ++bits) {
            AttentionInfo info;
            info.has_mask = info.mask_repeats = true;
            Tensor mask(bits & 1 ? DataType::Bool : DataType::F32, {2, bits & 2 ? c.heads : 1, c.queries, c.keys});
            for (int64_t i = 0; i < mask.desc.count(); ++i)
                if (bits & 1)
                    mask.as<bool>()[i] = random() % 3;
                else
                    mask.as<float>()[i] = random() % 3 ? static_cast<float>(random() % 7) - 3 : -INFINITY;
            check(c, info, random, {mask});
        }
}

TEST(AttentionMasks, RepeatedOneIsThatOfItsWindow) {
    // Values of two keys, of which each mask shows one.
    std::vector<Tensor> inputs{Tensor(DataType::F32, {4, 1, 1, 1}), Tensor(DataType::F32, {4, 1, 2, 1}),
                               Tensor::of<float>(DataType::F32, {4, 1, 2, 1}, {1, 2, 3, 4, 5, 6, 7, 8}),
                               Tensor::of<float>(DataType::F32, {2, 1, 1, 2}, {0, -INFINITY, -INFINITY, 0})},
        outputs{Tensor(DataType::F32, {4, 1, 1, 1})};
    AttentionInfo info;
    info.has_mask = info.mask_repeats = true;
    auto in = operands_of(inputs), results = operands_of(outputs);
    PackCache packs;
    ThreadPool pool(1);
    for (auto const& kernel : candidates(info, request_of(in, results, cpu_features().isa, 1)).kernels) {
        run(*kernel, inputs, outputs, packs, pool);
        auto const* y = outputs[0].as<float>();
        EXPECT_EQ(std::vector<float>(y, y + 4), (std::vector<float>{1, 4, 5, 8})) << kernel->id();
    }
}

TEST(AttentionMasks, OfOtherBatchesAreRefused) {
    for (bool repeats : {false, true}) {
        std::vector<Tensor> inputs{Tensor(DataType::F32, {6, 1, 1, 1}), Tensor(DataType::F32, {6, 1, 2, 1}),
                                   Tensor(DataType::F32, {6, 1, 2, 1}), Tensor(DataType::F32, {4, 1, 1, 2})},
            outputs{Tensor(DataType::F32, {6, 1, 1, 1})};
        AttentionInfo info;
        info.has_mask = true, info.mask_repeats = repeats;
        auto in = operands_of(inputs), results = operands_of(outputs);
        Descriptions of(inputs, outputs);
        PackCache packs;
        for (auto const& kernel : candidates(info, request_of(in, results, cpu_features().isa, 1)).kernels) {
            auto task = kernel->bind({of.in, of.out, {}, packs, 1});
            ASSERT_FALSE(task.ok()) << kernel->id();
            EXPECT_EQ(task.error().reason, repeats ? "6 batches are not a multiple of 4, those of the mask"
                                                   : "axis 0 of the mask is 4, expected 1 or 6");
        }
    }
}

}  // namespace
}  // namespace refactor::kernel::test
