#include "common/cpu_features.h"
#include "conv/conv.h"
#include "conv/random_cases.h"

#include <cfloat>

namespace refactor::kernel {
namespace {

class DepthwiseBf16 : public Bf16Test {};

/// The arguments of a case: X and residual are tensors between layers.
std::vector<Argument> arguments_of(Case const& c, std::vector<Tensor> const& inputs, Layout between) {
    std::vector<Argument> arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
        bool last = c.info.epilogue.residual && i + 1 == inputs.size();
        arguments.push_back(
            argument(inputs[i], i == 0 || last ? between : Layout::Plain, i == 1 && c.constant_weights));
    }
    return arguments;
}
Operand output_of(Case const& c, Layout layout) {
    Operand y;
    static_cast<TensorDesc&>(y) = desc_of(Tensor(c.out()), layout);
    return y;
}
std::vector<Operand> operands_of(std::vector<Argument> const& arguments) {
    std::vector<Operand> operands;
    for (auto const& a : arguments) operands.push_back(operand_of(a));
    return operands;
}

Tensor reference(Case const& c, std::vector<Tensor> const& inputs) {
    auto arguments = arguments_of(c, inputs, Layout::Plain);
    auto operands = operands_of(arguments);
    auto y = output_of(c, Layout::Plain);
    ThreadPool pool(1);
    Bench bench(**conv_reference(c.info, {operands, {&y, 1}}), arguments, y, pool);
    bench.run();
    return loaded(bench.output(), y.dims, Layout::Plain);
}

/// A sum of K products in any order differs from the exact one by at most K/2 eps Σ|x w|, activations are 1.1-Lipschitz
/// and add a few ulps, and what is stored is rounded to 8 bits.
void check(Case const& c, std::mt19937& rng, int threads) {
    SCOPED_TRACE(c.text());
    auto const& epilogue = c.info.epilogue;
    std::vector<Tensor> inputs{Tensor::random(c.x, rng), Tensor::random(c.w, rng)}, magnitudes;
    inputs[0].round_to_bf16();
    if (epilogue.bias) inputs.push_back(Tensor::random({c.w[0]}, rng));
    if (epilogue.residual) inputs.push_back(Tensor::random(c.out(), rng)), inputs.back().round_to_bf16();
    auto linear = c;
    linear.info.epilogue.activation = {};
    for (auto const& t : inputs) magnitudes.push_back(t.absolute());
    auto want = reference(c, inputs), bound = reference(linear, magnitudes);
    auto arguments = arguments_of(c, inputs, Layout::Blocked32);
    auto operands = operands_of(arguments);
    auto y = output_of(c, Layout::Blocked32);
    auto found = candidates(c.info, {operands, {&y, 1}, "cpu", cpu_features().isa, threads});
    auto id = c.w[1] > 1 ? "conv:cpu:grouped:bf16:avx512bf16" : "conv:cpu:depthwise:bf16:avx512bf16";
    auto has_id = [&](auto const& kernel) { return kernel->id() == id; };
    auto kernel = std::find_if(found.kernels.begin(), found.kernels.end(), has_id);
    ASSERT_NE(kernel, found.kernels.end());
    ThreadPool pool(threads);
    Bench bench(**kernel, arguments, y, pool);
    ASSERT_TRUE(bench.task) << bench.rejection;
    bench.run();
    auto got = loaded(bench.output(), y.dims, Layout::Blocked32);
    auto terms = static_cast<double>(element_count(c.w) / c.w[0]);
    for (size_t i = 0; i < got.values.size(); ++i) {
        auto tolerance = 1.1 * FLT_EPSILON * (terms * 0.5 + 8) * bound.values[i] + std::abs(want.values[i]) / 256;
        ASSERT_NEAR(got.values[i], want.values[i], tolerance) << "at " << i << " of " << dims_text(y.dims);
    }
}

TEST_F(DepthwiseBf16, RandomWindows) {
    for (int round = 0; round < 90; ++round) {
        auto c = random_case(rng_, static_cast<size_t>(round % 3 + 1), pick(rng_, 2, 100), 1, 1);
        c.info.may_round = true;
        check(c, rng_, round % 2 + 1);
        if (HasFatalFailure()) return;
    }
}

TEST_F(DepthwiseBf16, SquareWindows) {
    for (int64_t kernel : {3, 5, 6, 7, 8, 11, 13})
        for (int64_t stride : {1, 2, 3})
            for (int round = 0; round < 6; ++round) {
                auto c = square_case(rng_, kernel, stride, pick(rng_, 2, 100), 1, 1);
                c.info.may_round = true;
                check(c, rng_, round % 2 + 1);
                if (HasFatalFailure()) return;
            }
}

TEST_F(DepthwiseBf16, SeveralOutputsOfAChannel) {
    for (int64_t outputs : {2, 3, 5}) {
        auto c = square_case(rng_, 3, 1, pick(rng_, 2, 40), 1, outputs);
        c.info.may_round = true;
        check(c, rng_, 2);
    }
}

TEST_F(DepthwiseBf16, GroupsOfAPartOfABlock) {
    for (int64_t width : {2, 4, 8, 16})
        for (int round = 0; round < 6; ++round) {
            auto groups = pick(rng_, 2, 100 / width);
            auto c = round % 2 ? random_case(rng_, static_cast<size_t>(round % 3 + 1), groups, width, width)
                               : square_case(rng_, 3, pick(rng_, 1, 2), groups, width, width);
            c.info.may_round = true;
            check(c, rng_, 2);
            if (HasFatalFailure()) return;
        }
}

TEST_F(DepthwiseBf16, EveryActivationRoundsOnce) {
    for (int kind = 0; kind <= static_cast<int>(ActivationKind::Tanh); ++kind)
        for (int form = 0; form < 3; ++form) {
            auto c = square_case(rng_, 3, 1, 40, 1, 1);
            c.info.may_round = true;
            c.info.epilogue.activation = {static_cast<ActivationKind>(kind), 0.2f, 0.7f};
            c.info.epilogue.residual = form > 0, c.info.epilogue.residual_last = form > 1;
            check(c, rng_, 1);
        }
}

TEST_F(DepthwiseBf16, Declines) {
    auto c = square_case(rng_, 3, 1, 40, 1, 1);
    c.info.may_round = true, c.info.epilogue = {};
    c.info.epilogue.residual = true;
    std::vector<Tensor> tensors{Tensor(c.x), Tensor(c.w), Tensor(c.out())};
    auto operands = operands_of(arguments_of(c, tensors, Layout::Blocked32));
    auto y = output_of(c, Layout::Blocked32);
    auto why = [&](Isa isa = Isa::Avx512Bf16,
                   KernelResult(*factory)(ConvInfo const&, Request const&) = conv_depthwise_bf16) {
        auto kernel = factory(c.info, {operands, {&y, 1}, "cpu", isa, 1});
        return kernel ? std::string("none") : kernel.error().reason;
    };
    EXPECT_EQ(why(), "none");
    EXPECT_EQ(why(Isa::Avx512), "needs avx512bf16");
    EXPECT_EQ(why(Isa::Avx512Bf16, conv_grouped_bf16), "is for groups of a part of a block, with as many outputs");
    c.info.may_round = false;
    EXPECT_EQ(why(), "operands may not be rounded to bf16");
    c.info.may_round = true;
    auto why_wide = [&](Operand& operand) {
        auto kept = operand;
        operand.dtype = DataType::F32, operand.layout = Layout::Blocked16;
        auto reason = why();
        operand = kept;
        return reason;
    };
    EXPECT_EQ(why_wide(operands[0]),
              "expects X and Y to be bf16 in blocks of 32 channels, got f32 in blocks of 16 channels");
    EXPECT_EQ(why_wide(operands[2]), "expects the residual in the layout of Y");
    EXPECT_EQ(why_wide(y), "expects the residual in the layout of Y");
    operands[1].dtype = DataType::BF16;
    EXPECT_EQ(why(), "expects one type for all operands, got bf16 and f32");
    operands[1].dtype = DataType::F32;
    c.info.group = 20, operands[1].dims[1] = 2;
    EXPECT_EQ(why(), "is for depthwise convolutions");
    operands.pop_back();
    EXPECT_EQ(why(), "expects 3 inputs and 1 output, got 2 and 1");
}

}  // namespace
}  // namespace refactor::kernel
