#include "common/error.h"
#include "kernel/ops/cache.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

Tensor counted(Dims dims, int16_t first) {
    Tensor t(DataType::I16, std::move(dims));
    for (int64_t i = 0; i < t.desc.count(); ++i) t.as<int16_t>()[i] = static_cast<int16_t>(first + i);
    return t;
}

/// Runs the only candidate.
Tensor scatter(TensorScatterInfo const& info, std::vector<Tensor> inputs) {
    std::vector<Tensor> outputs{inputs[0]};
    auto in = operands_of(inputs), out = operands_of(outputs);
    PackCache packs;
    ThreadPool pool(2);
    auto found = candidates(info, request_of(in, out, Isa::Scalar, 2));
    EXPECT_EQ(found.kernels.size(), 1U);
    run(*found.kernels.front(), inputs, outputs, packs, pool);
    return outputs[0];
}

TEST(TensorScatter, FollowsTheDefinition) {
    auto cache = counted({2, 3, 5, 2}, 0), update = counted({2, 3, 2, 2}, 100);
    for (bool circular : {false, true})
        for (int64_t first : {0, 3, 4, 9, -1}) {
            if (!circular && (first < 0 || first > 3)) continue;
            auto indices = Tensor::of<int64_t>(DataType::I64, {2}, {first, 1});
            auto y = scatter({2, circular, true}, {cache, update, indices});
            auto wanted = cache;
            for (int64_t o = 0; o < 6; ++o)
                for (int64_t s = 0; s < 2; ++s)
                    for (int64_t i = 0; i < 2; ++i) {
                        auto row = (((o < 3 ? first : 1) + s) % 5 + 5) % 5;
                        wanted.as<int16_t>()[(o * 5 + row) * 2 + i] = update.as<int16_t>()[(o * 2 + s) * 2 + i];
                    }
            expect_close(y, wanted, {}, std::to_string(first));
        }
    auto y = scatter({2, false, false}, {cache, update});
    EXPECT_EQ(y.as<int16_t>()[0], 100);
}

TEST(TensorScatter, GrowsTheCache) {
    std::vector<Tensor> inputs{counted({2, 3, 2}, 1), counted({2, 2, 2}, 100),
                               Tensor::of<int64_t>(DataType::I64, {2}, {3, 1})};
    std::vector<Tensor> outputs{Tensor(DataType::I16, {2, 6, 2})};
    auto in = operands_of(inputs), out = operands_of(outputs);
    PackCache packs;
    ThreadPool pool(1);
    auto found = candidates(TensorScatterInfo{1, false, true}, request_of(in, out, Isa::Scalar, 1));
    run(*found.kernels.front(), inputs, outputs, packs, pool);
    std::vector<int16_t> wanted{1, 2, 3, 4, 5, 6, 100, 101, 102, 103, 0, 0, 7, 8, 104, 105, 106, 107, 0, 0, 0, 0, 0, 0};
    expect_close(outputs[0], Tensor::of(DataType::I16, {2, 6, 2}, wanted), {}, "grown");
}

TEST(TensorScatter, Refusals) {
    auto cache = counted({1, 4, 2}, 0), update = counted({1, 2, 2}, 9);
    for (int64_t first : {int64_t{-1}, int64_t{3}, INT64_MAX, INT64_MIN})
        EXPECT_THROW(scatter({1, false, true}, {cache, update, Tensor::of<int64_t>(DataType::I64, {1}, {first})}),
                     InvalidInput);
    std::vector<Tensor> inputs{cache, counted({1, 5, 2}, 0)}, outputs{cache};
    auto in = operands_of(inputs), out = operands_of(outputs);
    auto found = candidates(TensorScatterInfo{1, false, false}, request_of(in, out, Isa::Scalar, 1));
    TensorDesc const *operands[]{&inputs[0].desc, &inputs[1].desc}, *result = &outputs[0].desc;
    PackCache packs;
    EXPECT_FALSE(found.kernels.front()->bind({operands, {&result, 1}, {}, packs, 1}).ok());
    in[1].dtype = DataType::F32;
    EXPECT_TRUE(candidates(TensorScatterInfo{1, false, false}, request_of(in, out, Isa::Scalar, 1)).kernels.empty());
}

}  // namespace
}  // namespace refactor::kernel::test
