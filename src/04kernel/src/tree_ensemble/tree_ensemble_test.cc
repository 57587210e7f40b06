#include "kernel/ops/trees.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

using Node = TreeNode<uint32_t>;

/// Complete trees of one depth with random splits; leaf i of all trees has the weight `weights[i]` for target 0.
struct Forest {
    std::vector<Node> nodes;
    std::vector<float> splits;  ///< by node; leaves have none
    std::vector<uint32_t> roots, first;
    std::vector<float> weights;

    Forest(int trees, int depth, uint32_t features, std::mt19937& random) {
        std::normal_distribution<float> normal;
        for (int t = 0; t < trees; ++t) {
            roots.push_back(static_cast<uint32_t>(nodes.size()));
            nodes.resize(nodes.size() + 1), splits.resize(nodes.size());
            grow(roots.back(), depth, features, random, normal);
        }
        for (uint32_t i = 0; i < nodes.size(); ++i) {
            first.push_back(static_cast<uint32_t>(weights.size()));
            if (nodes[i].base == i) weights.push_back(normal(random));
        }
        first.push_back(static_cast<uint32_t>(weights.size()));
    }

    void grow(uint32_t at, int depth, uint32_t features, std::mt19937& random, auto& normal) {
        if (!depth) {
            nodes[at] = {0, 0, 0, at};
            return;
        }
        auto split = normal(random);
        auto pair = static_cast<uint32_t>(nodes.size());
        nodes.resize(pair + 2), splits.resize(pair + 2);
        splits[at] = split;
        nodes[at] = {1, tree_key(split) - 1, static_cast<uint32_t>(random() % features) * kTreeLanes, pair};
        grow(pair, depth - 1, features, random, normal), grow(pair + 1, depth - 1, features, random, normal);
    }

    /// What the definition says: x ≤ split goes to the second node of the pair, NaN to the first.
    float score(float const* x) const {
        float sum = 0;
        for (auto at : roots) {
            while (nodes[at].base != at)
                at = nodes[at].base + (x[nodes[at].feature / kTreeLanes] <= splits[at] ? 1 : 0);
            sum += weights[first[at]];
        }
        return sum;
    }

    std::vector<Tensor> inputs(Tensor x, std::vector<int32_t> const& features) const {
        auto size = [](auto const& list) { return static_cast<int64_t>(list.size()); };
        Tensor words(DataType::U32, {size(nodes), 4});
        std::memcpy(words.bytes.data(), nodes.data(), nodes.size() * sizeof(Node));
        return {std::move(x),
                words,
                Tensor::of(DataType::I32, {size(features)}, features),
                Tensor::of(DataType::U32, {size(roots)}, roots),
                Tensor::of(DataType::U32, {size(first)}, first),
                Tensor::of(DataType::F32, {size(weights)}, weights),
                Tensor::of(DataType::U32, {size(weights)}, std::vector<uint32_t>(weights.size())),
                Tensor::of<float>(DataType::F32, {1}, {0.5f}),
                Tensor::of<int64_t>(DataType::I64, {1}, {0})};
    }
};

TEST(TreeEnsemble, KeysKeepTheOrder) {
    auto const inf = std::numeric_limits<float>::infinity(), tiny = std::numeric_limits<float>::denorm_min();
    float const ordered[]{-inf, -3.5f, -tiny, 0.f, tiny, 1e-30f, 2.f, inf};
    for (size_t i = 1; i < std::size(ordered); ++i) {
        EXPECT_LT(tree_key(ordered[i - 1]), tree_key(ordered[i]));
        EXPECT_LT(tree_key(static_cast<double>(ordered[i - 1])), tree_key(static_cast<double>(ordered[i])));
    }
    EXPECT_EQ(tree_key(-0.f), tree_key(0.f));
    EXPECT_EQ(tree_key(-0.), tree_key(0.));
    EXPECT_GE(tree_key(-inf), 1U);
    EXPECT_EQ(tree_key(std::nanf("")), UINT32_MAX);
    EXPECT_EQ(tree_key(std::nan("")), UINT64_MAX);
}

TEST(TreeEnsemble, WalksAsTheDefinitionSays) {
    std::mt19937 random(20261121);
    for (int64_t rows : {1, 3, 4, 5, 8, 13, 300})
        for (int trees : {1, 8, 37})
            for (int threads : {1, 3}) {
                // Many features beside one tree: not all of a row's are compared.
                constexpr int64_t kColumns = 17;
                std::vector<int32_t> features{4, 0, 6, 16, 2, 9, 11, 1, 3};
                if (random() % 2) features.resize(3);
                Forest forest(trees, 1 + static_cast<int>(random() % 6), static_cast<uint32_t>(features.size()),
                              random);
                auto x = random_f32({rows, kColumns}, random);
                x.as<float>()[4] = std::nanf("");
                TreeEnsembleInfo info;
                info.columns = kColumns, info.dense = 1, info.base_values = 1;
                auto inputs = forest.inputs(x, features);
                std::vector<Tensor> outputs{Tensor(DataType::F32, {rows, 1})};
                auto in = operands_of(inputs), out = operands_of(outputs);
                auto found = candidates(info, request_of(in, out, Isa::Scalar, threads));
                ASSERT_EQ(found.kernels.size(), 1U) << found.rejections[0].reason;
                PackCache packs;
                ThreadPool pool(threads);
                run(*found.kernels[0], inputs, outputs, packs, pool);
                for (int64_t r = 0; r < rows; ++r) {
                    float picked[9];
                    for (size_t f = 0; f < features.size(); ++f) picked[f] = x.as<float>()[r * kColumns + features[f]];
                    // The same additions in the same order.
                    EXPECT_EQ(outputs[0].as<float>()[r], forest.score(picked) + 0.5f) << r << " of " << rows;
                }
            }
}

TEST(TreeEnsemble, Refusals) {
    std::mt19937 random(1);
    Forest forest(1, 2, 3, random);
    auto inputs = forest.inputs(random_f32({2, 3}, random), {0, 1, 2});
    std::vector<Tensor> outputs{Tensor(DataType::F32, {2, 1})};
    auto in = operands_of(inputs), out = operands_of(outputs);
    TreeEnsembleInfo info;
    info.columns = 5;
    auto found = candidates(info, request_of(in, out, Isa::Scalar, 1));
    ASSERT_EQ(found.kernels.size(), 1U);
    std::vector<TensorDesc const*> descs;
    for (auto const& t : inputs) descs.push_back(&t.desc);
    TensorDesc const* result = &outputs[0].desc;
    PackCache packs;
    auto task = found.kernels[0]->bind({descs, {&result, 1}, {}, packs, 1});
    ASSERT_FALSE(task.ok());
    EXPECT_EQ(task.error().reason, "X has 3 columns, the trees need 5");
    in[0].dtype = DataType::BF16;
    EXPECT_TRUE(candidates(info, request_of(in, out, Isa::Scalar, 1)).kernels.empty());
    in[0].dtype = DataType::F32, out[0].dtype = DataType::F64;
    EXPECT_TRUE(candidates(info, request_of(in, out, Isa::Scalar, 1)).kernels.empty());
}

}  // namespace
}  // namespace refactor::kernel::test
