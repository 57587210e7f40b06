#include "common/half.h"
#include "kernel/ops/elementwise.h"
#include "movement/movement_test.h"

#include <cmath>

/// Images of bf16 in nChw32c, computed in f32.
namespace refactor::kernel {
namespace {

using namespace testing;

constexpr auto kF32 = DataType::F32, kBf16 = DataType::BF16;

/// Normal numbers, zeros behind the last channel.
Tensor random_tensor(DataType type, Dims dims, Layout layout, std::mt19937& random) {
    Tensor t(type, dims, layout);
    std::normal_distribution<float> normal;
    std::memset(t.data(), 0, t.bytes());
    auto block = block_of(layout), channels = dims.size() > 1 ? dims[1] : 1, blocks = (channels + block - 1) / block;
    auto inner = layout == Layout::Plain ? 1 : t.stored_count() / dims[0] / blocks;
    for (int64_t i = 0; i < t.stored_count(); ++i) {
        auto value = normal(random);
        if (layout != Layout::Plain && i / inner % blocks * block + i % block >= channels) continue;
        if (type == kBf16)
            t.as<uint16_t>()[i] = bf16_from_f32(value);
        else
            t.as<float>()[i] = value;
    }
    return t;
}

/// A program of inputs and steps, of which those of bf16 are cast where they are read and at the end.
struct Expression {
    ElementwiseInfo info;
    std::vector<Tensor> inputs;

    uint16_t add(ExprInstruction const& code) {
        info.code.push_back(code);
        return static_cast<uint16_t>(info.code.size() - 1);
    }
    uint16_t input(Tensor t) {
        auto value = add({ExprOp::Input, t.dtype, {static_cast<uint16_t>(inputs.size())}});
        if (t.dtype == kBf16) value = add({ExprOp::Cast, kF32, {value}});
        inputs.push_back(std::move(t));
        return value;
    }
    uint16_t step(ExprOp op, uint16_t a, uint16_t b = 0, uint16_t c = 0) {
        return add({op, kF32, {a, b, c}, 0.25f, 0.5f});
    }
    void output(uint16_t value) { info.outputs.push_back(add({ExprOp::Cast, kBf16, {value}})); }
};

/// Every kernel's answer within one unit in the last place of bf16 of the reference, and zeros behind the last channel.
void check(Expression expression, std::vector<Tensor> const& outputs) {
    auto answers = run_all(expression.info, expression.inputs, outputs);
    ASSERT_GE(answers.size(), 2u);
    for (auto& answer : answers)
        for (size_t k = 0; k < outputs.size(); ++k) {
            auto block = block_of(outputs[k].layout), channels = outputs[k].dims[1],
                 blocks = (channels + block - 1) / block,
                 inner = outputs[k].stored_count() / outputs[k].dims[0] / blocks;
            for (int64_t i = 0; i < outputs[k].stored_count(); ++i) {
                auto actual = answer.outputs[k].as<uint16_t>()[i];
                auto value = f32_from_bf16(actual),
                     expected = f32_from_bf16(answers.back().outputs[k].as<uint16_t>()[i]);
                // Sums that cancel have the error of f32 of their terms, which are below 2^10.
                ASSERT_NEAR(value, expected, std::abs(expected) * 0x1p-7f + 0x1p-12f) << answer.id << " element " << i;
                bool exists = i / inner % blocks * block + i % block < channels;
                ASSERT_TRUE(exists || actual == 0) << answer.id << " element " << i << " of no channel";
            }
            auto const* behind = answer.outputs[k].as<uint16_t>() + outputs[k].stored_count();
            ASSERT_EQ(*behind, 0xa5a5) << answer.id;
        }
}

std::vector<Dims> const kImages{{2, 32, 5, 7}, {3, 19, 3, 3},    {1, 5, 31, 31}, {2, 48, 1, 1},
                                {2, 70, 9},    {2, 64, 2, 3, 5}, {1, 76, 48, 48}};

Dims with_size_one(Dims dims, std::initializer_list<size_t> axes) {
    for (auto axis : axes)
        if (axis < dims.size()) dims[axis] = 1;
    return dims;
}
Dims channels_of(Dims const& dims, int64_t images) {
    Dims one(dims.size(), 1);
    one[0] = images, one[1] = dims[1];
    return one;
}

TEST(ElementwiseBf16, NormalisesChannels) {
    std::mt19937 random(31);
    for (auto const& dims : kImages) {
        Expression e;
        auto x = e.input(random_tensor(kBf16, dims, Layout::Blocked32, random));
        Dims channels = channels_of(dims, 1);
        auto bias = e.input(random_tensor(kF32, channels, Layout::Plain, random));
        channels.erase(channels.begin());
        auto scale = e.input(random_tensor(kF32, channels, Layout::Plain, random));
        e.output(e.step(ExprOp::Relu, e.step(ExprOp::Fma, x, scale, bias)));
        check(e, {Tensor(kBf16, dims, Layout::Blocked32)});
        if (HasFatalFailure()) return;
    }
}

/// Scales of each image and channel, as a global pool leaves them, or the layer behind it.
TEST(ElementwiseBf16, ScalesChannels) {
    std::mt19937 random(32);
    for (auto const& dims : kImages)
        for (auto [type, layout] : {std::pair{kF32, Layout::Blocked16},
                                    {kBf16, Layout::Blocked32},
                                    {kF32, Layout::Plain},
                                    {kF32, Layout::Blocked8}})
            for (int64_t images : {int64_t{1}, dims[0]}) {
                Expression e;
                auto scale = e.input(random_tensor(type, channels_of(dims, images), layout, random));
                auto x = e.input(random_tensor(kBf16, dims, Layout::Blocked32, random));
                e.output(e.step(ExprOp::Mul, e.step(ExprOp::Sigmoid, scale), x));
                e.output(e.step(ExprOp::Fma, scale, x, x));
                Tensor y(kBf16, dims, Layout::Blocked32);
                check(e, {y, y});
                if (HasFatalFailure()) return;
            }
}

/// Residuals, and operands repeated along rows, columns, planes and images.
TEST(ElementwiseBf16, AddsImages) {
    std::mt19937 random(33);
    for (auto const& dims : kImages)
        for (auto other : {dims, with_size_one(dims, {2}), with_size_one(dims, {3}), with_size_one(dims, {0, 2, 4})}) {
            Expression e;
            auto x = e.input(random_tensor(kBf16, dims, Layout::Blocked32, random));
            auto y = e.input(random_tensor(kBf16, other, Layout::Blocked32, random));
            auto sum = e.step(ExprOp::Add, x, y);
            e.output(e.step(ExprOp::Relu, sum));
            e.output(e.step(ExprOp::Sub, sum, x));
            e.output(e.step(ExprOp::Tanh, x));
            check(e, std::vector<Tensor>(3, Tensor(kBf16, dims, Layout::Blocked32)));
            if (HasFatalFailure()) return;
        }
}

/// Numbers and planes of one channel, which leave no zeros behind the last.
TEST(ElementwiseBf16, TakesOneChannelAndNumbers) {
    std::mt19937 random(34);
    for (auto const& dims : kImages)
        for (bool planes : {false, true}) {
            Expression e;
            auto x = e.input(random_tensor(kBf16, dims, Layout::Blocked32, random));
            auto number = e.input(random_tensor(kF32, {}, Layout::Plain, random));
            auto value = e.step(ExprOp::Add, e.step(ExprOp::Silu, x), number);
            if (planes)
                value = e.step(ExprOp::Mul, value,
                               e.input(random_tensor(kF32, with_size_one(dims, {1}), Layout::Plain, random)));
            e.output(value);
            check(e, {Tensor(kBf16, dims, Layout::Blocked32)});
            if (HasFatalFailure()) return;
        }
}

/// Any steps in any order, with and without others that read what is loaded.
TEST(ElementwiseBf16, RandomPrograms) {
    constexpr ExprOp kOps[] = {ExprOp::Add,  ExprOp::Sub,       ExprOp::Mul,         ExprOp::Fma,
                               ExprOp::Clip, ExprOp::Relu,      ExprOp::Sigmoid,     ExprOp::Tanh,
                               ExprOp::Max,  ExprOp::HardSwish, ExprOp::HardSigmoid, ExprOp::LeakyRelu};
    for (uint32_t seed = 0; seed < 150; ++seed) {
        std::mt19937 random(seed);
        SCOPED_TRACE("seed " + std::to_string(seed));
        Dims dims{pick(random, 1, 3), pick(random, 1, 80), pick(random, 1, 12), pick(random, 1, 12)};
        auto layout = seed % 4 ? Layout::Blocked32 : Layout::Plain;
        Expression e;
        std::vector<uint16_t> values;
        for (auto n = pick(random, 1, 3); n > 0; --n)
            values.push_back(e.input(random_tensor(kBf16, dims, layout, random)));
        values.push_back(e.input(random_tensor(kF32, channels_of(dims, 1), Layout::Plain, random)));
        auto any = [&] { return values[static_cast<size_t>(pick(random, 0, std::ssize(values) - 1))]; };
        for (auto n = pick(random, 1, 6); n > 0; --n)
            values.push_back(e.step(kOps[pick(random, 0, 11)], any(), any(), any()));
        std::vector<Tensor> outputs;
        for (auto n = pick(random, 1, 2); n > 0; --n) {
            e.output(n == 1 ? values.back() : any());
            outputs.emplace_back(kBf16, dims, layout);
        }
        check(e, outputs);
        if (HasFatalFailure()) return;
    }
}

TEST(ElementwiseBf16, LoadsAndStoresInOneStep) {
    if (cpu_features().isa < Isa::Avx512Bf16) GTEST_SKIP() << "needs AVX512-BF16";
    std::mt19937 random(35);
    Dims dims{1, 64, 6, 6};
    Expression e;
    auto x = e.input(random_tensor(kBf16, dims, Layout::Blocked32, random));
    e.output(e.step(ExprOp::Relu, e.step(ExprOp::Add, x, x)));
    Operand in{{kBf16, Layout::Blocked32, dims}, nullptr};
    auto found = candidates(e.info, {{&in, 1}, {&in, 1}, "cpu", cpu_features().isa, 1});
    ASSERT_FALSE(found.kernels.empty());
    EXPECT_EQ(found.kernels[0]->id(), "elementwise:cpu:tile:bf16:avx512bf16");
    TensorDesc const* desc = &in;
    PackCache packs;
    auto task = found.kernels[0]->bind({{&desc, 1}, {&desc, 1}, {}, packs, 1});
    ASSERT_TRUE(task);
    EXPECT_EQ((*task)->operations(), 64. * 36);
    EXPECT_EQ((*task)->in_place_inputs(), 1u);
}

TEST(ElementwiseBf16, RefusesWhatLiesOtherwise) {
    Dims dims{2, 40, 3, 3};
    Expression e;
    std::mt19937 random(36);
    auto x = e.input(random_tensor(kBf16, dims, Layout::Blocked32, random));
    auto y = e.input(random_tensor(kF32, dims, Layout::Blocked16, random));
    e.output(e.step(ExprOp::Add, x, y));
    std::vector<Operand> in{{e.inputs[0], nullptr}, {e.inputs[1], nullptr}},
        out{{Tensor(kBf16, dims, Layout::Blocked32), nullptr}};
    auto found = candidates(e.info, {in, out, "cpu", cpu_features().isa, 1});
    std::vector<TensorDesc const*> inputs{&in[0], &in[1]}, outputs{out.data()};
    PackCache packs;
    for (auto const& kernel : found.kernels) {
        auto task = kernel->bind({inputs, outputs, {}, packs, 1});
        ASSERT_FALSE(task) << kernel->id();
        EXPECT_NE(task.error().reason.find("does not broadcast"), std::string::npos) << task.error().reason;
    }
    e.info.outputs = {x};
    out[0].dtype = kF32;
    in[0].dtype = kF32, e.info.code[0].dtype = kF32;
    bool said = false;
    for (auto const& no : candidates(e.info, {in, out, "cpu", cpu_features().isa, 1}).rejections)
        said = said || no.reason.find("neither inputs nor outputs of bf16") != std::string::npos;
    EXPECT_TRUE(said);
}

}  // namespace
}  // namespace refactor::kernel
