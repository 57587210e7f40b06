#include "kernel/ops/conv.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

struct Case {
    Dims x, w;
    Dims strides, dilations, begin, end;
    int64_t group;
};

Dims output_of(Case const& c) {
    Dims y{c.x[0], c.w[0]};
    for (size_t i = 0; i < c.strides.size(); ++i) {
        auto reach = (c.w[i + 2] - 1) * c.dilations[i] + 1;
        y.push_back((c.x[i + 2] + c.begin[i] + c.end[i] - reach) / c.strides[i] + 1);
    }
    return y;
}

Case const kCases[]{
    {{2, 3, 17}, {5, 3, 3}, {1}, {1}, {1}, {1}, 1},                                     // 1-D
    {{1, 4, 200}, {7, 4, 5}, {2}, {3}, {4}, {1}, 1},                                    // steps, dilated, uneven pads
    {{2, 5, 9, 11}, {13, 5, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},                  // 2-D
    {{1, 3, 23, 19}, {8, 3, 7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}, 1},                  // first layer
    {{2, 37, 13, 7}, {29, 37, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1},                // X in place
    {{1, 6, 8, 9}, {4, 6, 1, 1}, {2, 3}, {1, 1}, {0, 0}, {0, 0}, 1},                    // one tap, steps
    {{2, 12, 10, 10}, {18, 4, 3, 2}, {1, 2}, {2, 1}, {2, 0}, {1, 1}, 3},                // groups
    {{2, 7, 11, 13}, {7, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 7},                  // depthwise
    {{1, 5, 12, 9}, {10, 1, 5, 3}, {2, 2}, {1, 1}, {2, 1}, {2, 1}, 5},                  // two channels each
    {{1, 3, 5, 6, 7}, {4, 3, 3, 2, 3}, {1, 2, 1}, {1, 1, 2}, {1, 0, 2}, {1, 1, 2}, 1},  // 3-D
    {{1, 300, 6, 6}, {20, 300, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},               // deeper than a block
    {{1, 2, 3, 3}, {3, 2, 3, 3}, {1, 1}, {4, 4}, {4, 4}, {4, 4}, 1},  // taps that read nothing but padding
    {{0, 2, 3, 3}, {3, 2, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},  // no images
};

TEST(GatheredConv, AgreesWithTheReference) {
    std::mt19937 random(seed_of(401));
    for (auto const& c : kCases)
        for (int bits = 0; bits < 8; ++bits) {
            ConvInfo info;
            info.window = {c.strides, c.dilations, c.begin, c.end}, info.group = c.group;
            info.epilogue.bias = bits & 1, info.epilogue.residual = bits & 2, info.epilogue.residual_last = bits & 4;
            if (bits & 1) info.epilogue.activation.kind = ActivationKind::Relu;
            auto y = output_of(c);
            std::vector<Tensor> inputs{doubles_of(random_f32(c.x, random)), doubles_of(random_f32(c.w, random))};
            if (bits & 1) inputs.push_back(doubles_of(random_f32({c.w[0]}, random)));
            if (bits & 2) inputs.push_back(doubles_of(random_f32(y, random)));
            // Both sides round k partial sums of size about sqrt(k): sqrt(k) * eps * sqrt(k) with a factor for the
            // tail.
            auto k = static_cast<double>(element_count(c.w)) / static_cast<double>(c.w[0]);
            auto others = check_candidates(info, inputs, {Tensor(DataType::F64, y)}, {7.5e-16 * (8 + k), 4e-16});
            EXPECT_EQ(others, wide_levels(cpu_features().isa));
            if (HasFatalFailure()) return;
        }
}

/// Without vectors: rounding to f32 on the way would take the last 29 bits.
TEST(GatheredConv, ReluOfTheReferenceKeepsF64) {
    ConvInfo info;
    info.window = {{1}, {1}, {0}, {0}}, info.epilogue.activation.kind = ActivationKind::Relu;
    std::vector<Tensor> inputs{Tensor::of<double>(DataType::F64, {1, 1, 2}, {1 + 0x1p-40, -3}),
                               Tensor::of<double>(DataType::F64, {1, 1, 1}, {1})},
        outputs{Tensor(DataType::F64, {1, 1, 2})};
    auto in = operands_of(inputs), results = operands_of(outputs);
    auto found = candidates(info, request_of(in, results, Isa::Scalar, 1));
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.back(), inputs, outputs, packs, pool);
    EXPECT_EQ(outputs[0].as<double>()[0], 1 + 0x1p-40);
    EXPECT_EQ(outputs[0].as<double>()[1], 0);
}

TEST(GatheredConv, SaysWhatItIsFor) {
    ConvInfo info;
    info.window = {{1}, {1}, {0}, {0}};
    auto why = [&](DataType dtype) {
        std::vector<Tensor> inputs{Tensor(dtype, {1, 1, 2}), Tensor(dtype, {1, 1, 1})};
        auto in = operands_of(inputs), results = operands_of({Tensor(dtype, {1, 1, 2})});
        std::string text;
        for (auto const& r : candidates(info, request_of(in, results, cpu_features().isa, 1)).rejections)
            if (r.reason.find("gathered") != std::string::npos) text += r.reason + "\n";
        return text;
    };
    if (wide_levels(cpu_features().isa) == 0) GTEST_SKIP() << "this processor lacks AVX2";
    EXPECT_NE(why(DataType::F32).find("is for f64, got f32"), std::string::npos) << why(DataType::F32);
    info.epilogue.activation.kind = ActivationKind::Tanh;
    EXPECT_NE(why(DataType::F64).find("activations of f64 are limited to Relu"), std::string::npos);
}

}  // namespace
}  // namespace refactor::kernel::test
