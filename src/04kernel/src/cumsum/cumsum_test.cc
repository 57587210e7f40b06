#include "kernel/ops/reduce.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

TEST(CumSum, FollowsOnnx) {
    auto x = Tensor::of<int32_t>(DataType::I32, {2, 3}, {1, 2, 3, 4, 5, 6});
    auto check = [&](CumSumInfo info, std::vector<int32_t> const& values) {
        std::vector<Tensor> inputs{x}, outputs{x};
        auto in = operands_of(inputs), results = operands_of(outputs);
        PackCache packs;
        ThreadPool pool(1);
        for (auto const& kernel : candidates(info, request_of(in, results, cpu_features().isa, 1)).kernels) {
            run(*kernel, inputs, outputs, packs, pool);
            expect_close(outputs[0], Tensor::of(DataType::I32, {2, 3}, values), {}, kernel->id() + info.attributes());
        }
    };
    check({1, false, false}, {1, 3, 6, 4, 9, 15});
    check({1, true, false}, {0, 1, 3, 0, 4, 9});
    check({1, false, true}, {6, 5, 3, 15, 11, 6});
    check({1, true, true}, {5, 3, 0, 11, 6, 0});
    check({0, false, false}, {1, 2, 3, 5, 7, 9});
    check({1, false, false, true}, {1, 2, 6, 4, 20, 120});
    check({1, true, false, true}, {1, 1, 2, 1, 4, 20});
    check({1, false, true, true}, {6, 6, 3, 120, 30, 6});
    check({1, true, true, true}, {6, 3, 1, 30, 6, 1});
}

TEST(CumSum, CandidatesAgree) {
    std::mt19937 random(seed_of(61));
    for (int bits = 0; bits < 4; ++bits)
        for (int64_t axis = 0; axis < 3; ++axis) {
            auto x = random_f32({5, 131, 19}, random);
            // 131 rounded additions of partial sums of size about 12.
            check_candidates(CumSumInfo{axis, (bits & 1) != 0, (bits & 2) != 0}, {x}, {x}, {131 * 12 * 6e-8, 0});
        }
}

TEST(CumSum, VectorsOfAllWidths) {
    std::mt19937 random(seed_of(62));
    for (int64_t inner : {1, 2, 7, 8, 9, 33, 512, 1100})
        for (int bits = 0; bits < 4; ++bits) {
            auto x = random_f32({2, 9, inner}, random);
            // 9 rounded additions of partial sums of size about 3.
            check_candidates(CumSumInfo{1, (bits & 1) != 0, (bits & 2) != 0}, {x}, {x}, {9 * 3 * 6e-8, 0});
        }
}

/// Sets of a few elements, which are turned, and more rows than stay in L1.
TEST(CumSum, SetsOfAllSizes) {
    std::mt19937 random(seed_of(64));
    Dims const shapes[]{{83, 2, 1}, {700, 3, 1},  {19, 7, 2},  {41, 9, 15},
                        {33, 1, 5}, {17, 128, 2}, {16, 85, 3}, {2, 140, 75}};
    for (auto const& dims : shapes)
        for (int bits = 0; bits < 4; ++bits) {
            CumSumInfo info{1, (bits & 1) != 0, (bits & 2) != 0};
            auto x = random_f32(dims, random);
            // Rounded additions of partial sums of at most `size`.
            auto size = static_cast<double>(dims[1]);
            check_candidates(info, {x}, {x}, {size * std::sqrt(size) * 6e-8, 0});
            for (auto type : {DataType::I32, DataType::I64}) {
                Tensor whole(type, dims);
                for (auto& byte : whole.bytes) byte = static_cast<std::byte>(random());
                check_candidates(info, {whole}, {whole}, {});
            }
        }
}

/// Sums that leave the range of f32, and come back, and what is no number.
TEST(CumSum, SumsThatAreNotFinite) {
    std::mt19937 random(seed_of(65));
    for (int64_t inner : {5, 75, 300})
        for (int bits = 0; bits < 4; ++bits) {
            auto x = random_f32({1, 90, inner}, random);
            auto put = [&](int64_t row, int64_t column, float value) { x.as<float>()[row * inner + column] = value; };
            put(20, 0, INFINITY), put(70, 0, -INFINITY), put(50, 1, NAN), put(89, 2, -INFINITY);
            for (int64_t i = 0; i < 8; ++i) put(30 + i, 3, i < 4 ? 2e38f : -2e38f);
            check_candidates(CumSumInfo{1, (bits & 1) != 0, (bits & 2) != 0}, {x}, {x}, {90 * 12 * 6e-8, 1e-6});
        }
}

/// As exact as sums in f64 where partial sums are large, and taken away again.
TEST(CumSum, LongSumsLoseNothing) {
    constexpr int64_t kSize = 20000, kInner = 40;
    std::mt19937 random(seed_of(66));
    auto x = random_f32({kSize, kInner}, random);
    for (int64_t i = 0; i < x.desc.count(); ++i) x.as<float>()[i] += i < x.desc.count() / 2 ? 1000 : -1000;
    // Of both only the last rounding is left.
    check_candidates(CumSumInfo{0}, {x}, {x}, {1e-6, 1.2e-7});
}

TEST(CumSum, WideIntegersWrap) {
    std::mt19937 random(seed_of(63));
    for (int64_t inner : {1, 2, 3, 4, 5, 16, 23, 600})
        for (int bits = 0; bits < 4; ++bits) {
            Tensor x(DataType::I64, {2, 9, inner});
            for (int64_t i = 0; i < x.desc.count(); ++i)
                x.as<int64_t>()[i] = static_cast<int64_t>((uint64_t{random()} << 32) + random());
            check_candidates(CumSumInfo{1, (bits & 1) != 0, (bits & 2) != 0}, {x}, {x}, {});
        }
}

TEST(CumSum, StripsOfAllWidths) {
    constexpr int64_t kOuter = 3, kSize = 7;
    for (int64_t inner : {1, 2, 15, 16, 33, 512, 1100})
        for (int bits = 0; bits < 4; ++bits) {
            bool exclusive = bits & 1, reverse = bits & 2;
            std::vector<int32_t> values(static_cast<size_t>(kOuter * kSize * inner)), expected(values.size());
            for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i * 37 % 101) - 50;
            for (int64_t o = 0; o < kOuter; ++o)
                for (int64_t i = 0; i < inner; ++i)
                    for (int64_t k = 0, total = 0; k < kSize; ++k) {
                        auto at = static_cast<size_t>((o * kSize + (reverse ? kSize - 1 - k : k)) * inner + i);
                        expected[at] = static_cast<int32_t>(exclusive ? total : total + values[at]);
                        total += values[at];
                    }
            auto x = Tensor::of(DataType::I32, {kOuter, kSize, inner}, values);
            std::vector<Tensor> inputs{x}, outputs{x};
            auto in = operands_of(inputs), results = operands_of(outputs);
            PackCache packs;
            ThreadPool pool(2);
            CumSumInfo info{1, exclusive, reverse};
            for (auto const& kernel : candidates(info, request_of(in, results, cpu_features().isa, 2)).kernels) {
                run(*kernel, inputs, outputs, packs, pool);
                expect_close(outputs[0], Tensor::of(DataType::I32, {kOuter, kSize, inner}, expected), {},
                             kernel->id() + info.attributes() + " of " + std::to_string(inner));
            }
        }
}

}  // namespace
}  // namespace refactor::kernel::test
