#include "kernel/ops/conv.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

struct Case {
    Dims x, w, y;
    Dims strides, dilations, begin;
    int64_t group;
};

Case const kCases[]{{{2, 3, 17}, {3, 5, 4}, {2, 5, 34}, {2}, {1}, {1}, 1},
                    {{1, 4, 9}, {4, 2, 3}, {1, 2, 15}, {1}, {3}, {0}, 1},
                    {{2, 7, 5, 6}, {7, 13, 4, 4}, {2, 13, 10, 12}, {2, 2}, {1, 1}, {1, 1}, 1},
                    {{1, 6, 7, 9}, {6, 5, 3, 2}, {1, 10, 14, 26}, {2, 3}, {1, 1}, {1, 0}, 2},
                    {{1, 5, 8, 7}, {5, 1, 3, 3}, {1, 5, 15, 13}, {2, 2}, {1, 1}, {1, 1}, 5},
                    {{1, 3, 4, 5, 6}, {3, 2, 2, 3, 3}, {1, 2, 5, 9, 8}, {1, 2, 1}, {1, 1, 1}, {0, 1, 0}, 1},
                    {{1, 40, 70, 90}, {40, 9, 2, 2}, {1, 9, 140, 180}, {2, 2}, {1, 1}, {0, 0}, 1},
                    {{0, 3, 5}, {3, 2, 2}, {0, 2, 10}, {2}, {1}, {0}, 1}};

TEST(ScatteredConvTranspose, AgreesWithTheReference) {
    std::mt19937 random(seed_of(402));
    for (auto const& c : kCases)
        for (int bits = 0; bits < 8; ++bits) {
            ConvTransposeInfo info;
            info.window = {c.strides, c.dilations, c.begin, c.begin}, info.group = c.group;
            info.epilogue.bias = bits & 1, info.epilogue.residual = bits & 2, info.epilogue.residual_last = bits & 4;
            if (bits & 1) info.epilogue.activation.kind = ActivationKind::Relu;
            std::vector<Tensor> inputs{doubles_of(random_f32(c.x, random)), doubles_of(random_f32(c.w, random))};
            if (bits & 1) inputs.push_back(doubles_of(random_f32({c.y[1]}, random)));
            if (bits & 2) inputs.push_back(doubles_of(random_f32(c.y, random)));
            // Both sides round at most k partial sums of size about sqrt(k): sqrt(k) * eps * sqrt(k) with a factor for
            // the tail.
            auto k = static_cast<double>(element_count(c.w)) / static_cast<double>(c.w[1]);
            auto others = check_candidates(info, inputs, {Tensor(DataType::F64, c.y)}, {7.5e-16 * (8 + k), 4e-16});
            EXPECT_EQ(others, wide_levels(cpu_features().isa));
            if (HasFatalFailure()) return;
        }
}

}  // namespace
}  // namespace refactor::kernel::test
