#include "kernel/ops/vision.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

/// Kernels beside the reference where all instruction sets are there.
int const kFast = cpu_features().isa >= Isa::Avx2 ? 2 : 1;

struct Case {
    Dims image;
    Col2ImInfo info;
    Dims places;
};

Case const kCases[]{{{9}, {{3}, {{2}, {2}, {1}, {1}}}, {4}},
                    {{8, 17}, {{3, 2}, {{1, 1}, {1, 1}, {0, 0}, {0, 0}}}, {6, 16}},
                    {{8, 7}, {{3, 2}, {{2, 3}, {1, 2}, {1, 0}, {2, 1}}}, {5, 2}},
                    {{5, 40}, {{3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}}, {5, 40}},
                    {{6, 50}, {{2, 2}, {{2, 2}, {1, 1}, {0, 0}, {0, 0}}}, {3, 25}},
                    {{4, 51}, {{3, 5}, {{1, 2}, {1, 1}, {1, 2}, {1, 2}}}, {4, 26}},
                    {{8, 72}, {{4, 8}, {{4, 8}, {1, 1}, {0, 0}, {0, 0}}}, {2, 9}},
                    {{4, 70}, {{4, 7}, {{4, 6}, {1, 1}, {0, 3}, {0, 2}}}, {1, 12}},
                    {{3, 4, 5}, {{2, 2, 2}, {{1, 2, 1}, {1, 1, 2}, {0, 1, 0}, {1, 0, 1}}}, {3, 2, 4}}};

TEST(Col2Im, RowsAgreeWithTheReference) {
    std::mt19937 random(seed_of(34));
    for (auto const& c : kCases) {
        int64_t taps = 1, places = 1;
        for (auto n : c.info.kernel) taps *= n;
        for (auto n : c.places) places *= n;
        Dims out{2, 3};
        for (auto size : c.image) out.push_back(size);
        // At most 12 terms of up to 5.
        EXPECT_EQ(check_candidates(c.info, {random_f32({2, 3 * taps, places}, random)}, {Tensor(DataType::F32, out)},
                                   {12 * 5 * 6e-8, 0}),
                  kFast);
    }
}

TEST(Col2Im, CountsHowOftenAnElementIsRead) {
    Col2ImInfo info{{2}, {{1}, {1}, {0}, {0}}};
    std::vector<Tensor> in{Tensor::of<int32_t>(DataType::I32, {1, 2, 3}, {1, 1, 1, 1, 1, 1})};
    std::vector<Tensor> out{Tensor(DataType::I32, {1, 1, 4})};
    auto operands = operands_of(in), results = operands_of(out);
    auto found = candidates(info, request_of(operands, results, Isa::Scalar, 1));
    ASSERT_EQ(found.kernels.size(), 1u);
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels[0], in, out, packs, pool);
    int32_t const expected[]{1, 2, 2, 1};
    for (int i = 0; i < 4; ++i) EXPECT_EQ(out[0].as<int32_t>()[i], expected[i]);
}

}  // namespace
}  // namespace refactor::kernel::test
