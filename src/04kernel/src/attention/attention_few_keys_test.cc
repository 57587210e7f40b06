#include "attention/attention_cases.h"

namespace refactor::kernel::test {
namespace {

/// The kernel of this machine's instruction set that is estimated to be fastest.
std::string fastest(Case const& c, AttentionInfo const& info) {
    std::vector<Tensor> inputs{Tensor(DataType::F32, {c.batch, c.heads, c.queries, c.depth}),
                               Tensor(DataType::F32, {c.batch, c.kv_heads, c.keys, c.depth}),
                               Tensor(DataType::F32, {c.batch, c.kv_heads, c.keys, c.value_depth})},
        outputs{Tensor(DataType::F32, {c.batch, c.heads, c.queries, c.value_depth})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    Descriptions of(inputs, outputs);
    PackCache packs;
    std::string id;
    double least = INFINITY;
    for (auto const& kernel : candidates(info, request_of(in, results, cpu_features().isa, 1)).kernels)
        if (auto estimate = kernel->estimate({of.in, of.out, {}, packs, 1}); estimate && *estimate < least)
            least = *estimate, id = kernel->id();
    return id;
}

TEST(AttentionOfFewKeys, HasQueriesInLanes) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    for (auto const& c : {Case{1, 8, 8, 4096, 7, 16, 16}, Case{1, 8, 8, 64, 4, 64, 64}, Case{2, 4, 2, 300, 1, 8, 8},
                          Case{64, 3, 3, 49, 49, 32, 32}})
        EXPECT_NE(fastest(c, {}).find(":few_keys:"), std::string::npos) << c.keys << " keys";
    for (auto const& c :
         {Case{1, 12, 12, 128, 256, 64, 64}, Case{1, 8, 8, 1, 7, 64, 64}, Case{1, 8, 8, 4, 64, 128, 128}})
        EXPECT_EQ(fastest(c, {}).find(":few_keys:"), std::string::npos) << c.keys << " keys";
    AttentionInfo causal;
    causal.causal = true;
    EXPECT_EQ(fastest({1, 8, 8, 4096, 7, 16, 16}, causal).find(":few_keys:"), std::string::npos);
}

TEST(AttentionOfFewKeys, SaysWhatItRefuses) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    auto why = [](AttentionInfo const& info, int64_t keys, DataType type) {
        std::vector<Tensor> inputs{Tensor(type, {1, 1, 9, 4}), Tensor(type, {1, 1, keys, 4}),
                                   Tensor(type, {1, 1, keys, 4})},
            outputs{Tensor(type, {1, 1, 9, 4})};
        if (info.has_mask) inputs.emplace_back(type, Dims{9, keys});
        auto in = operands_of(inputs), results = operands_of(outputs);
        Descriptions of(inputs, outputs);
        PackCache packs;
        auto found = candidates(info, request_of(in, results, Isa::Avx2, 1));
        for (auto const& kernel : found.kernels)
            if (kernel->id() == "attention:cpu:few_keys:f32:avx2") {
                auto task = kernel->bind({of.in, of.out, {}, packs, 1});
                return task ? std::string("nothing") : task.error().reason;
            }
        std::string reasons;
        for (auto const& rejection : found.rejections) reasons += rejection.reason + '\n';
        return reasons;
    };
    AttentionInfo plain, capped;
    capped.softcap = 1;
    EXPECT_EQ(why(plain, 56, DataType::F32), "nothing");
    EXPECT_EQ(why(plain, 57, DataType::F32), "57 keys, expected 1 to 56");
    EXPECT_NE(why(capped, 7, DataType::F32).find("is causal, or has sinks or a cap"), std::string::npos);
    EXPECT_NE(why(plain, 7, DataType::F64).find("input 0 is f64, expected f32"), std::string::npos);
    AttentionInfo masked;
    masked.has_mask = true;
    EXPECT_EQ(why(masked, 7, DataType::F32), "nothing");
    masked.hidden = HiddenKeys::Replaced;
    EXPECT_NE(why(masked, 7, DataType::F32).find("the mask takes the place of scores"), std::string::npos);
}

/// A constant mask for windows of which some have the same, and images that repeat them.
TEST(AttentionOfFewKeys, OrdersWindowsByTheirMasks) {
    constexpr int64_t kWindows = 6, kHeads = 3, kQueries = 21, kKeys = 17, kDepth = 8;
    std::mt19937 random(seed_of(99));
    Tensor mask = random_f32({kWindows, kHeads, kQueries, kKeys}, random);
    auto bytes = static_cast<int64_t>(sizeof(float)) * kHeads * kQueries * kKeys;
    for (auto [window, same_as] : {std::pair{2, 0}, {3, 0}, {5, 1}})
        std::copy_n(mask.bytes.begin() + same_as * bytes, bytes, mask.bytes.begin() + window * bytes);
    for (int64_t images : {1, 3}) {
        Dims const q{images * kWindows, kHeads, kQueries, kDepth}, k{images * kWindows, kHeads, kKeys, kDepth};
        AttentionInfo info;
        info.has_mask = true, info.mask_repeats = images > 1;
        std::vector<Tensor> inputs{random_f32(q, random), random_f32(k, random), random_f32(k, random), mask},
            outputs{Tensor(DataType::F32, q)}, expected{Tensor(DataType::F32, q)};
        auto in = operands_of(inputs), results = operands_of(outputs);
        in[3].constant = mem_manager::Blob::copy_of(mask.bytes.data(), static_cast<size_t>(kWindows * bytes));
        auto found = candidates(info, request_of(in, results, cpu_features().isa, 2));
        PackCache packs;
        ThreadPool pool(2);
        run(*found.kernels.back(), inputs, expected, packs, pool);
        for (auto const& kernel : found.kernels) {
            run(*kernel, inputs, outputs, packs, pool);
            expect_close(outputs[0], expected[0], kTolerance, kernel->id());
        }
    }
}

}  // namespace
}  // namespace refactor::kernel::test
