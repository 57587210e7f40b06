#include "integer_matmul/integer_test.h"

namespace refactor::kernel::test {
namespace {

TEST(IntegerPool, CandidatesAgree) {
    std::mt19937 random(seed_of(321));
    for (auto dtype : {DataType::U8, DataType::I8})
        for (int64_t channels : {1, 7, 10, 32, 45, 54, 131}) {
            IntegerPoolInfo max{PoolKind::Max, {3, 2}, {{2, 1}, {1, 2}, {1, 1}, {1, 0}}};
            std::vector<Tensor> x{random_bytes(dtype, {2, 9, 8, channels}, random)};
            EXPECT_GE(check_candidates(max, x, {Tensor(dtype, {2, 5, 7, channels})}, {}),
                      cpu_features().isa >= Isa::Avx2);
            // Windows of nothing but pads.
            IntegerPoolInfo sparse{PoolKind::Max, {3, 2}, {{2, 2}, {1, 2}, {1, 4}, {1, 1}}};
            check_candidates(sparse, x, {Tensor(dtype, {2, 5, 6, channels})}, {});
            IntegerPoolInfo window{PoolKind::Average, {3, 3}, {{2, 2}, {1, 1}, {0, 0}, {0, 0}}, 0.73f, 5, 9};
            check_candidates(window, x, {Tensor(dtype, {2, 4, 3, channels})}, {});
            for (bool counted : {false, true}) {
                // Pads, windows of nothing but pads, and one that ends behind them.
                IntegerPoolInfo padded{
                    PoolKind::Average, {3, 2}, {{2, 2}, {1, 2}, {1, 4}, {1, 1}}, 0.73f, 5, 9, counted};
                check_candidates(padded, x, {Tensor(dtype, {2, 5, 6, channels})}, {});
            }
            IntegerPoolInfo global{PoolKind::Average, {}, {}, 1.37f, 3, -7};
            check_candidates(global, x, {Tensor(dtype, {2, 1, 1, channels})}, {});
            check_candidates(global, x, {Tensor(DataType::F32, {2, 1, 1, channels})}, {1e-4, 0});
        }
}

TEST(IntegerPool, AveragesOfManyPositions) {
    std::mt19937 random(seed_of(322));
    for (auto dtype : {DataType::U8, DataType::I8})
        for (int64_t channels : {8, 75, 192})
            for (int extreme : {-1, 0x00, 0x7f, 0x80, 0xff}) {
                std::vector<Tensor> x{random_bytes(dtype, {1, 19, 29, channels}, random)};
                if (extreme >= 0) std::fill(x[0].bytes.begin(), x[0].bytes.end(), static_cast<std::byte>(extreme));
                IntegerPoolInfo global{PoolKind::Average, {}, {}, 0.41f, 3, -7};
                check_candidates(global, x, {Tensor(dtype, {1, 1, 1, channels})}, {});
                check_candidates(global, x, {Tensor(DataType::F32, {1, 1, 1, channels})}, {1e-4, 0});
            }
}

TEST(IntegerPool, Refuses) {
    auto reason = [](IntegerPoolInfo const& info, DataType x, DataType y) {
        auto in = operands_of({Tensor(x, {1, 4, 4, 3})}), results = operands_of({Tensor(y, {1, 1, 1, 3})});
        auto found = candidates(info, request_of(in, results, cpu_features().isa, 1));
        EXPECT_TRUE(found.kernels.empty());
        return found.rejections.empty() ? std::string() : found.rejections.back().reason;
    };
    EXPECT_NE(reason({PoolKind::Sum}, DataType::U8, DataType::U8).find("maximum or average"), std::string::npos);
    EXPECT_NE(reason({PoolKind::Max}, DataType::U8, DataType::F32).find("u8 to f32"), std::string::npos);
}

}  // namespace
}  // namespace refactor::kernel::test
