#include "conv/check_cases.h"

namespace refactor::kernel {
namespace {

/// Channels in groups at each position alone.
Case pointwise_case(std::mt19937& rng, Dims x, int64_t group, int64_t outputs) {
    Case c;
    auto rank = x.size() - 2;
    c.info.group = group, c.info.epilogue = random_epilogue(rng);
    c.info.window = {Dims(rank, 1), Dims(rank, 1), Dims(rank, 0), Dims(rank, 0)};
    c.w = {outputs, x[1] / group}, c.x = std::move(x), c.constant_weights = pick(rng, 0, 3) > 0;
    for (size_t i = 0; i < rank; ++i) c.w.push_back(1);
    return c;
}

TEST_F(ConvTest, Pointwise) {
    std::vector<Case> cases;
    for (int i = 0; i < 6; ++i) {
        // Tiles of any rows and of columns that end inside of a vector.
        auto group = pick(rng_, 1, 4);
        Dims x{pick(rng_, 1, 2), group * pick(rng_, 1, 40)};
        for (auto rank = i % 3; rank >= 0; --rank) x.push_back(pick(rng_, 5, i % 3 == 2 ? 9 : 23));
        if (i % 3 == 0) x.back() += 40;
        cases.push_back(pointwise_case(rng_, x, group, group * pick(rng_, 3, 40)));
    }
    // Channels that are kilobytes apart; deeper than a block; more rows than a block; as few positions as a vector has.
    cases.push_back(pointwise_case(rng_, {2, 24, 16, 16}, 2, 26));
    cases.push_back(pointwise_case(rng_, {1, 1100, 5, 7}, 1, 20));
    cases.push_back(pointwise_case(rng_, {1, 900, 32, 8}, 1, 7));
    cases.push_back(pointwise_case(rng_, {1, 520, 4, 9}, 1, 530));
    cases.push_back(pointwise_case(rng_, {3, 30, 4, 4}, 2, 44));
    auto ran = check_all(cases, rng_);
    EXPECT_EQ(ran.contains("conv:cpu:pointwise:f32:avx2"), cpu_features().isa >= Isa::Avx2);
    EXPECT_EQ(ran.contains("conv:cpu:pointwise:f32:avx512"), cpu_features().isa >= Isa::Avx512);
    for (auto const& c : cases)
        for (auto isa : {Isa::Avx2, Isa::Avx512}) {
            if (isa > cpu_features().isa) continue;
            check(c, Layout::Plain, Layout::Plain, isa, 3, Expected(c, rng_), ran);
            if (HasFatalFailure()) return;
        }
}

TEST_F(ConvTest, PointwiseSaysWhatItIsFor) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "this processor lacks AVX2";
    auto why = [&](Case const& c, Layout layout) {
        std::vector<Operand> operands(2);
        operands[0].dims = c.x, operands[1].dims = c.w;
        operands[0].dtype = operands[1].dtype = DataType::F32, operands[0].layout = layout;
        Operand y;
        y.dtype = DataType::F32, y.dims = c.out();
        PackCache packs;
        TensorDesc const *inputs[] = {&operands[0], &operands[1]}, *outputs[] = {&y};
        Request const request{operands, {&y, 1}, "cpu", Isa::Avx2, 1};
        std::string text;
        auto found = candidates(c.info, request);
        for (auto const& r : found.rejections)
            if (auto at = r.reason.find("pointwise:avx2: "); at != std::string::npos)
                text += r.reason.substr(r.reason.find(": ", at) + 2);
        for (auto const& kernel : found.kernels)
            if (kernel->id() == "conv:cpu:pointwise:f32:avx2")
                if (auto task = kernel->bind({inputs, outputs, {}, packs, 1}); !task) text += task.error().reason;
        return text;
    };
    auto make = [&](Dims x, int64_t outputs) {
        auto c = pointwise_case(rng_, std::move(x), 1, outputs);
        c.info.epilogue = {};
        return c;
    };
    auto plain = make({1, 8, 5, 5}, 9);
    EXPECT_EQ(why(plain, Layout::Plain), "");
    EXPECT_EQ(why(plain, Layout::Blocked8), "operands must be in the plain layout");
    EXPECT_EQ(why(make({1, 8, 5, 5}, 2), Layout::Plain), "is for 3 or more output channels of a group, got 2");
    EXPECT_EQ(why(make({1, 8, 2, 3}, 9), Layout::Plain), "is for 8 or more positions, got 6");
    auto wide = plain;
    wide.w[3] = 3;
    EXPECT_EQ(why(wide, Layout::Plain), "is for windows of one element");
    auto strided = plain;
    strided.info.window.strides = {1, 2};
    EXPECT_EQ(why(strided, Layout::Plain), "is for windows that read every position once");
}

}  // namespace
}  // namespace refactor::kernel
