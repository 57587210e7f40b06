#include "kernel/ops/reduce.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

// exp of both sides: 2 ulp each; the sum: n / 8 lanes; log-softmax: the rounding of x - max, |x| up to about 30.
constexpr Tolerance kTolerance{4e-6, 1e-5};

TEST(Softmax, ReferenceSumsToOne) {
    auto x = Tensor::of<float>(DataType::F32, {2, 3}, {1, 2, 3, 1000, -1000, 1000});
    std::vector<Tensor> inputs{x}, outputs{x};
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(SoftmaxInfo{1, 1, false, false}, request_of(in, results, Isa::Scalar, 1));
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.back(), inputs, outputs, packs, pool);
    float const expected[]{0.09003057f, 0.24472848f, 0.66524094f, 0.5f, 0, 0.5f};
    for (int i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(outputs[0].as<float>()[i], expected[i]);
}

TEST(Softmax, CandidatesAgree) {
    std::mt19937 random(seed_of(31));
    struct Case {
        Dims dims;
        int64_t axis, axes;
    };
    Case const cases[]{{{7, 129}, 1, 1},     {{3, 1}, 1, 1},      {{129, 37}, 0, 1},     {{3, 65, 19}, 1, 1},
                       {{2, 5, 3, 7}, 1, 3}, {{2, 50257}, 1, 1},  {{12, 33, 128}, 2, 1}, {{2, 21, 20, 20}, 1, 1},
                       {{5, 8}, 1, 1},       {{3, 67, 4}, 1, 1},  {{2, 9, 2}, 1, 1},     {{131, 8}, 0, 1},
                       {{131, 2}, 1, 1},     {{70, 3}, 1, 1},     {{35, 4}, 1, 1},       {{33, 1}, 1, 1},
                       {{1, 300, 9}, 1, 1},  {{2, 33, 15}, 1, 1}, {{3, 77, 3}, 1, 1},    {{2, 101, 7}, 1, 1},
                       {{1, 64, 6}, 1, 1}};
    for (auto const& c : cases)
        for (int bits = 0; bits < 4; ++bits) {
            auto x = random_f32(c.dims, random, 4);
            check_floats(SoftmaxInfo{c.axis, c.axes, (bits & 1) != 0, (bits & 2) != 0}, {x}, {x}, kTolerance);
        }
}

TEST(Softmax, InfiniteScores) {
    std::mt19937 random(seed_of(32));
    for (int bits = 0; bits < 4; ++bits) {
        auto x = random_f32({37, 4}, random, 4);
        for (int i = 0; i < 37; ++i) x.as<float>()[i * 4 + 1] = -INFINITY;
        x.as<float>()[7 * 4 + 2] = NAN, x.as<float>()[8 * 4] = -INFINITY;
        for (int i = 0; i < 4; ++i) x.as<float>()[11 * 4 + i] = -INFINITY;
        for (int64_t axis = 0; axis < 2; ++axis)
            check_floats(SoftmaxInfo{axis, 1, (bits & 1) != 0, (bits & 2) != 0}, {x}, {x}, kTolerance);
    }
    for (int bits = 0; bits < 4; ++bits) {  // columns that fill parts of vectors
        auto x = random_f32({75, 7}, random, 4);
        for (int i = 0; i < 75; ++i) x.as<float>()[i * 7 + 2] = -INFINITY;
        x.as<float>()[9 * 7 + 4] = NAN, x.as<float>()[74 * 7 + 5] = -INFINITY;
        check_floats(SoftmaxInfo{0, 1, (bits & 1) != 0, (bits & 2) != 0}, {x}, {x}, kTolerance);
    }
    for (int64_t axis = 0; axis < 2; ++axis)
        for (int bits = 0; bits < 4; ++bits) {
            auto x = random_f32({35, 35}, random, 4);
            for (int i = 0; i < 35; ++i) x.as<float>()[3 * 35 + i] = x.as<float>()[i * 35 + 5] = -INFINITY;
            x.as<float>()[7 * 35 + 4] = NAN;
            x.as<float>()[8 * 35 + 6] = -INFINITY;
            check_floats(SoftmaxInfo{axis, 1, (bits & 1) != 0, (bits & 2) != 0}, {x}, {x}, kTolerance);
        }
}

}  // namespace
}  // namespace refactor::kernel::test
