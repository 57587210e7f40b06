#include "kernel/ops/conv_chain.h"

#include "common/cpu_features.h"
#include "conv/test_harness.h"

#include <cfloat>
#include <set>

namespace refactor::kernel {
namespace {

using namespace test;

int64_t pick(std::mt19937& rng, int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

struct Case {
    Dims x;
    ConvChainInfo info;
    std::vector<Dims> weights;

    Dims dims_before(size_t stage) const {
        auto dims = x;
        for (size_t i = 0; i < stage; ++i) dims = conv_output_dims(info.stages[i].window, dims, weights[i]);
        return dims;
    }
    Dims out() const { return dims_before(weights.size()); }
    std::string text() const {
        auto text = dims_text(x);
        for (auto const& w : weights) text += " * " + dims_text(w);
        return text + " " + info.attributes();
    }
};

Epilogue random_epilogue(std::mt19937& rng, bool last) {
    constexpr ActivationKind kKinds[] = {ActivationKind::None,    ActivationKind::Relu,      ActivationKind::Clip,
                                         ActivationKind::Sigmoid, ActivationKind::HardSwish, ActivationKind::GeluErf};
    Epilogue e;
    e.activation = {kKinds[pick(rng, 0, std::size(kKinds) - 1)], 0.2f, 0.7f};
    e.bias = pick(rng, 0, 1), e.residual = last && pick(rng, 0, 1), e.residual_last = pick(rng, 0, 1);
    return e;
}

/// `word`: e (expand), d (depthwise), p (project), in order.
Case random_case(std::mt19937& rng, std::string_view word, size_t rank, int64_t largest) {
    Case c;
    auto wide = pick(rng, 1, 70);
    c.x = {pick(rng, 1, 3), word[0] == 'e' ? pick(rng, 1, 40) : wide};
    Window one, window;
    for (size_t i = 0; i < rank; ++i) {
        one.strides.push_back(1), one.dilations.push_back(1), one.pads_begin.push_back(0), one.pads_end.push_back(0);
        window.strides.push_back(pick(rng, 1, 3)), window.dilations.push_back(pick(rng, 1, 2));
        window.pads_begin.push_back(pick(rng, 0, 3)), window.pads_end.push_back(pick(rng, 0, 3));
    }
    auto channels = c.x[1];
    for (size_t i = 0; i < word.size(); ++i) {
        auto& stage = c.info.stages.emplace_back();
        stage.epilogue = random_epilogue(rng, i + 1 == word.size());
        auto out = word[i] == 'p' ? pick(rng, 1, 50) : wide;
        auto& w = c.weights.emplace_back(Dims{out, word[i] == 'd' ? 1 : channels});
        for (size_t axis = 0; axis < rank; ++axis) w.push_back(word[i] == 'd' ? pick(rng, 1, 5) : 1);
        stage.window = word[i] == 'd' ? window : one;
        if (word[i] == 'd') {
            stage.group = wide;
            for (size_t axis = 0; axis < rank; ++axis)
                c.x.push_back(pick(rng, window.dilations[axis] * (w[2 + axis] - 1) + 1, largest));
        }
        channels = out;
    }
    return c;
}

/// One stage by the reference of Conv, Plain.
Tensor reference(ConvInfo const& info, std::vector<Tensor> const& inputs, Dims const& dims) {
    std::vector<Argument> arguments;
    std::vector<Operand> operands;
    for (auto const& t : inputs) arguments.push_back(argument(t, Layout::Plain));
    for (auto const& a : arguments) operands.push_back(operand_of(a));
    Operand y;
    y.dtype = DataType::F32, y.dims = dims;
    auto found = candidates(info, {operands, {&y, 1}});
    ThreadPool pool(1);
    Bench bench(*found.kernels.back(), arguments, y, pool);
    bench.run();
    return loaded(bench.output(), dims, Layout::Plain);
}

/// Operands of a chain, its result, and a bound of the magnitudes that the sums of the last stage add up.
struct Expected {
    std::vector<Tensor> inputs;
    Tensor want, bound;

    Expected(Case const& c, std::mt19937& rng) : inputs{Tensor::random(c.x, rng)} {
        want = inputs[0], bound = want.absolute();
        for (size_t i = 0; i < c.weights.size(); ++i) {
            auto const& info = c.info.stages[i];
            std::vector<Tensor> stage{Tensor::random(c.weights[i], rng)};
            if (info.epilogue.bias) stage.push_back(Tensor::random({c.weights[i][0]}, rng));
            if (info.epilogue.residual) stage.push_back(Tensor::random(c.out(), rng));
            inputs.insert(inputs.end(), stage.begin(), stage.end());
            auto linear = info;
            linear.epilogue.activation = {};
            std::vector<Tensor> values{want}, magnitudes{bound};
            for (auto const& t : stage) values.push_back(t), magnitudes.push_back(t.absolute());
            want = reference(info, values, c.dims_before(i + 1));
            bound = reference(linear, magnitudes, c.dims_before(i + 1));
            // No activation gives more than 1 where its argument is 0.
            for (auto& v : bound.values) v += 1;
        }
    }
};

/// Every kernel that takes the layout against the reference. Tolerance: a sum of K products in any order is off by at
/// most K/2 eps Σ|x w|, activations are 1.1-Lipschitz and add a few ulps, and what a stage is off reaches the last one
/// scaled as the values themselves.
void check(Case const& c, Expected const& expected, Isa isa, Layout layout, int threads, std::set<std::string>& ran) {
    SCOPED_TRACE(c.text() + " " + std::string(name_of(isa)) + " threads " + std::to_string(threads));
    auto y = operand_of({{DataType::F32, layout, c.out()}, nullptr});
    bool residual = c.info.stages.back().epilogue.residual;
    std::vector<Argument> arguments;
    std::vector<Operand> operands;
    for (size_t i = 0; i < expected.inputs.size(); ++i) {
        bool blocked = i == 0 || (residual && i + 1 == expected.inputs.size());
        arguments.push_back(argument(expected.inputs[i], blocked ? layout : Layout::Plain, !blocked));
        operands.push_back(operand_of(arguments.back()));
    }
    auto found = candidates(c.info, {operands, {&y, 1}, "cpu", isa, threads, Precision::Exact});
    ASSERT_FALSE(found.kernels.empty());
    double terms = 0;
    for (auto const& w : c.weights) terms += static_cast<double>(element_count(w) / w[0]) * 0.5 + 8;
    ThreadPool pool(threads);
    for (auto const& kernel : found.kernels) {
        SCOPED_TRACE(kernel->id());
        Bench bench(*kernel, arguments, y, pool);
        ASSERT_TRUE(bench.task) << bench.rejection;
        bench.run();
        ran.insert(kernel->id());
        auto got = loaded(bench.output(), y.dims, layout);
        for (size_t i = 0; i < got.values.size(); ++i)
            ASSERT_NEAR(got.values[i], expected.want.values[i],
                        1.1 * 1.1 * 1.1 * FLT_EPSILON * terms * expected.bound.values[i])
                << "at " << i << " of " << dims_text(y.dims);
    }
}

std::set<std::string> check_all(Case const& c, std::mt19937& rng) {
    std::set<std::string> ran;
    Expected expected(c, rng);
    int threads = static_cast<int>(pick(rng, 1, 4));
    if (cpu_features().isa >= Isa::Avx512) check(c, expected, Isa::Avx512, Layout::Blocked16, threads, ran);
    if (cpu_features().isa >= Isa::Avx2) check(c, expected, Isa::Avx2, Layout::Blocked8, threads, ran);
    check(c, expected, Isa::Scalar, Layout::Plain, threads, ran);
    return ran;
}

class ConvChain : public RandomTest {
protected:
    void expect_row_buffer(std::set<std::string> const& ran) {
        auto isa = cpu_features().isa;
        EXPECT_EQ(ran.contains("conv_chain:cpu:row_buffer:f32:avx2"), isa >= Isa::Avx2);
        EXPECT_EQ(ran.contains("conv_chain:cpu:row_buffer:f32:avx512"), isa >= Isa::Avx512);
        EXPECT_TRUE(ran.contains("conv_chain:cpu:stages:f32"));
    }
};

TEST_F(ConvChain, AnyWindow) {
    for (int i = 0; i < 8; ++i)
        for (auto const* word : {"ed", "dp", "edp"}) {
            expect_row_buffer(check_all(random_case(rng_, word, i % 4 ? 2 : 1, i % 4 ? 25 : 80), rng_));
            if (HasFatalFailure()) return;
        }
}

TEST_F(ConvChain, OneChannel) {
    // A convolution of one channel and one tap is depthwise too.
    for (auto const* word : {"ed", "dp", "edp"}) {
        auto c = random_case(rng_, word, 2, 25);
        c.x[1] = 1;
        for (size_t i = 0; i < c.weights.size(); ++i) {
            c.weights[i][1] = 1;
            if (word[i] != 'p') c.weights[i][0] = 1;
            if (word[i] == 'd') c.info.stages[i].group = 1;
        }
        expect_row_buffer(check_all(c, rng_));
        if (HasFatalFailure()) return;
    }
}

TEST_F(ConvChain, BandsOfFewRows) {
    // Rows so wide that about six of two blocks of 16 channels are what a band may hold.
    auto wide = static_cast<int64_t>(cpu_features().l2 / sizeof(float)) / 2 / 32 / 6;
    for (auto const* word : {"ed", "dp", "edp"})
        for (int64_t stride : {1, 2}) {
            auto c = random_case(rng_, word, 2, 6);
            c.x[0] = 1, c.x[2] = pick(rng_, 17, 23), c.x[3] = wide + pick(rng_, 0, 9);
            for (auto& stage : c.info.stages)
                if (stage.group > 1) stage.window.strides = {stride, stride};
            expect_row_buffer(check_all(c, rng_));
            if (HasFatalFailure()) return;
        }
}

TEST_F(ConvChain, RefusesWhatItDoesNotCompute) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs AVX2";
    auto refused = [&](Case const& c, std::string const& reason, bool constant = true) {
        SCOPED_TRACE(c.text());
        std::vector<Operand> operands{operand_of({{DataType::F32, Layout::Blocked8, c.x}, nullptr})};
        auto blob = mem_manager::Blob::make(mem_manager::cpu_device(), 1 << 20);
        for (size_t i = 0; i < c.weights.size(); ++i) {
            operands.push_back(operand_of({{DataType::F32, Layout::Plain, c.weights[i]}, blob, constant}));
            if (c.info.stages[i].epilogue.bias)
                operands.push_back(operand_of({{DataType::F32, Layout::Plain, {c.weights[i][0]}}, blob, true}));
            if (c.info.stages[i].epilogue.residual)
                operands.push_back(operand_of({{DataType::F32, Layout::Blocked8, c.out()}, blob}));
        }
        auto y = operand_of({{DataType::F32, Layout::Blocked8, c.out()}, nullptr});
        auto found = candidates(c.info, {operands, {&y, 1}, "cpu", Isa::Avx2});
        EXPECT_TRUE(std::any_of(found.rejections.begin(), found.rejections.end(), [&](auto const& r) {
            return r.reason.find("row_buffer:avx2") != std::string::npos && r.reason.find(reason) != std::string::npos;
        })) << (found.rejections.empty() ? "nothing refused" : found.rejections.back().reason);
    };
    auto c = random_case(rng_, "edp", 2, 20);
    refused(c, "constant weights", false);
    auto strided = c;
    strided.info.stages[0].window.strides = {2, 2};
    refused(strided, "one tap");
    auto multiplied = random_case(rng_, "dp", 2, 20);
    multiplied.x[1] = 4, multiplied.weights[0][0] = 8, multiplied.weights[1][1] = 8,
    multiplied.info.stages[0].group = 4;
    refused(multiplied, "one tap");
    auto early = c;
    early.info.stages[1].epilogue.residual = true;
    refused(early, "last stage");
}

}  // namespace
}  // namespace refactor::kernel
