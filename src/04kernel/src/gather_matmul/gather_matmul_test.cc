#include "common/error.h"
#include "kernel/ops/matmul.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

Tensor indices_of(std::vector<int64_t> const& values, DataType type) {
    auto count = static_cast<int64_t>(values.size());
    if (type == DataType::I64) return Tensor::of(type, {count}, values);
    return Tensor::of(type, {count}, std::vector<int32_t>(values.begin(), values.end()));
}

/// Rows [count, k], matrices [matrices, k, n] and an index for each row.
std::vector<Tensor> inputs_of(std::vector<int64_t> const& indices, int64_t matrices, int64_t k, int64_t n, bool trans_w,
                              std::mt19937& random, DataType type = DataType::I64) {
    auto count = static_cast<int64_t>(indices.size());
    return {random_f32({count, k}, random), random_f32(trans_w ? Dims{matrices, n, k} : Dims{matrices, k, n}, random),
            indices_of(indices, type)};
}

TEST(GatherMatMul, CandidatesAgree) {
    std::mt19937 random(seed_of(91));
    struct {
        int64_t rows, matrices, k, n;
    } const cases[]{{1, 1, 5, 3},    {1, 8, 64, 100},  {7, 3, 33, 17},    {40, 5, 70, 1100},
                    {300, 4, 19, 7}, {64, 64, 16, 64}, {25, 2, 130, 513}, {9, 2, 0, 5}};
    for (auto const& c : cases)
        for (bool trans_w : {false, true})
            for (auto type : {DataType::I32, DataType::I64}) {
                std::vector<int64_t> indices(static_cast<size_t>(c.rows));
                for (auto& index : indices)
                    index = std::uniform_int_distribution<int64_t>(-c.matrices, c.matrices - 1)(random);
                auto others = check_candidates(
                    GatherMatMulInfo{trans_w}, inputs_of(indices, c.matrices, c.k, c.n, trans_w, random, type),
                    {Tensor(DataType::F32, {c.rows, c.n})}, {4e-7 * (8 + static_cast<double>(c.k)), 2e-6});
                EXPECT_GE(others, c.k > 0 && cpu_features().isa >= Isa::Avx2 ? 1 : 0);
            }
}

TEST(GatherMatMul, RowsThatShareAndBias) {
    std::mt19937 random(seed_of(94));
    for (auto [rows, share] : {std::pair<int64_t, int64_t>{4, 4}, {6, 2}, {120, 3}})
        for (bool trans_w : {false, true}) {
            std::vector<int64_t> indices(static_cast<size_t>(rows));
            for (auto& index : indices) index = std::uniform_int_distribution<int64_t>(0, 4)(random);
            auto inputs = inputs_of(indices, 5, 300, 70, trans_w, random);
            inputs[0] = random_f32({rows / share, 300}, random);
            inputs.push_back(random_f32({5, 70}, random));
            check_candidates(GatherMatMulInfo{trans_w}, inputs, {Tensor(DataType::F32, {rows, 70})}, {1.2e-4, 2e-6});
        }
}

TEST(GatherMatMul, IndicesOutOfRangeThrow) {
    std::mt19937 random(seed_of(92));
    PackCache packs;
    ThreadPool pool(1);
    for (int64_t bad : {3, -4}) {
        auto inputs = inputs_of({0, bad, 1}, 3, 16, 40, false, random);
        std::vector<Tensor> outputs{Tensor(DataType::F32, {3, 40})};
        auto in = operands_of(inputs), results = operands_of(outputs);
        auto found = candidates(GatherMatMulInfo{}, request_of(in, results, cpu_features().isa, 1));
        for (auto const& kernel : found.kernels) {
            try {
                run(*kernel, inputs, outputs, packs, pool);
                ADD_FAILURE() << kernel->id() << " took index " << bad;
            } catch (InvalidInput const& e) {
                EXPECT_NE(std::string(e.what()).find("index " + std::to_string(bad) + " (at position 1)"),
                          std::string::npos)
                    << e.what();
            }
        }
    }
}

TEST(GatherMatMul, RefusalsNameTheReason) {
    std::mt19937 random(seed_of(93));
    struct {
        DataType x, index;
        char const* device;
        char const* why;
    } const cases[]{{DataType::F16, DataType::I64, "cpu", "X is f16, expected f32"},
                    {DataType::F32, DataType::U8, "cpu", "indices are u8, expected i32 or i64"},
                    {DataType::F32, DataType::I64, "nvidia", "runs on cpu"}};
    for (auto const& c : cases) {
        std::vector<Tensor> inputs{Tensor(c.x, {2, 4}), Tensor(DataType::F32, {3, 4, 5}), Tensor(c.index, {2})};
        auto in = operands_of(inputs), results = operands_of({Tensor(DataType::F32, {2, 5})});
        auto request = request_of(in, results, cpu_features().isa, 1);
        request.device = c.device;
        auto found = candidates(GatherMatMulInfo{}, request);
        EXPECT_TRUE(found.kernels.empty());
        ASSERT_FALSE(found.rejections.empty());
        EXPECT_NE(found.rejections.back().reason.find(c.why), std::string::npos) << found.rejections.back().reason;
    }
    auto inputs = inputs_of({0, 1}, 3, 16, 40, false, random);
    std::vector<Tensor> outputs{Tensor(DataType::F32, {2, 41})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    PackCache packs;
    Descriptions of(inputs, outputs);
    for (auto const& kernel : candidates(GatherMatMulInfo{}, request_of(in, results, cpu_features().isa, 1)).kernels) {
        auto task = kernel->bind({of.in, of.out, {}, packs, 1});
        ASSERT_FALSE(task.ok()) << kernel->id();
        EXPECT_NE(task.error().reason.find("do not fit"), std::string::npos) << task.error().reason;
    }
}

}  // namespace
}  // namespace refactor::kernel::test
