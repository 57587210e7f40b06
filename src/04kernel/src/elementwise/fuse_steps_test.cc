#include "elementwise/fuse_steps.h"

#include "reduce/kernel_test.h"

#include <limits>

namespace refactor::kernel::test {
namespace {

using Code = ExprInstruction;

/// (x - zero) * scale in f32, of bytes; inputs x, zero, scale.
ElementwiseInfo dequantize(DataType type) {
    return {{Code{.op = ExprOp::Input, .dtype = type, .operands = {0}},
             Code{.op = ExprOp::Cast, .dtype = DataType::F32, .operands = {0}},
             Code{.op = ExprOp::Input, .dtype = type, .operands = {1}},
             Code{.op = ExprOp::Cast, .dtype = DataType::F32, .operands = {2}},
             Code{.op = ExprOp::Sub, .dtype = DataType::F32, .operands = {1, 3}},
             Code{.op = ExprOp::Input, .dtype = DataType::F32, .operands = {2}},
             Code{.op = ExprOp::Mul, .dtype = DataType::F32, .operands = {5, 4}}},
            {6}};
}

/// round(x) + zero within `low` and `high`, as a byte; inputs x, zero.
ElementwiseInfo quantize(DataType type, double low, double high) {
    return {{Code{.op = ExprOp::Input, .dtype = DataType::F32, .operands = {0}},
             Code{.op = ExprOp::Round, .dtype = DataType::F32, .operands = {0}},
             Code{.op = ExprOp::Input, .dtype = type, .operands = {1}},
             Code{.op = ExprOp::Cast, .dtype = DataType::F32, .operands = {2}},
             Code{.op = ExprOp::Add, .dtype = DataType::F32, .operands = {1, 3}},
             Code{.op = ExprOp::Constant, .dtype = DataType::F32, .value = low},
             Code{.op = ExprOp::Constant, .dtype = DataType::F32, .value = high},
             Code{.op = ExprOp::Clip, .dtype = DataType::F32, .operands = {4, 5, 6}},
             Code{.op = ExprOp::Cast, .dtype = type, .operands = {7}}},
            {8}};
}

Tensor random_bytes(DataType type, Dims dims, std::mt19937& random) {
    Tensor t(type, dims);
    for (int64_t i = 0; i < t.desc.count(); ++i) t.as<uint8_t>()[i] = static_cast<uint8_t>(random());
    return t;
}

/// Shapes of zero points and scales: for all, for rows, along rows.
std::vector<Dims> const kShapes{{}, {7, 1}, {33}, {5, 7, 33}};

TEST(FuseSteps, BytesAreDequantised) {
    std::mt19937 random(seed_of(331));
    for (auto type : {DataType::U8, DataType::I8})
        for (auto const& shape : kShapes)
            check_candidates(
                dequantize(type),
                {random_bytes(type, {5, 7, 33}, random), random_bytes(type, shape, random), random_f32(shape, random)},
                {Tensor(DataType::F32, {5, 7, 33})}, {});
}

TEST(FuseSteps, BytesAreRounded) {
    std::mt19937 random(seed_of(332));
    for (auto type : {DataType::U8, DataType::I8})
        for (auto const& shape : kShapes) {
            auto x = random_f32({5, 7, 33}, random, 90);
            for (int64_t i = 0; i < 60; ++i) x.as<float>()[i] = static_cast<float>(i) - 30.5f;
            constexpr auto kInf = std::numeric_limits<float>::infinity();
            for (auto v : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 3e9f, -3e9f, -0.f})
                x.as<float>()[random() % 1155] = v;
            double low = type == DataType::I8 ? -128 : 0;
            check_candidates(quantize(type, low, low + 255), {x, random_bytes(type, shape, random)},
                             {Tensor(type, {5, 7, 33})}, {});
        }
}

/// Steps of the program for an instruction set.
size_t steps_of(ElementwiseInfo const& info, std::vector<Tensor> const& inputs, Tensor const& y, Isa isa) {
    auto in = operands_of(inputs), out = operands_of({y});
    auto program = elementwise::TileProgram::make(info, request_of(in, out, isa, 1), isa);
    EXPECT_TRUE(program.ok());
    return program.ok() ? (*program)->steps.size() : 0;
}

TEST(FuseSteps, StepsBecomeOne) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "no vectors on this processor";
    Tensor x(DataType::U8, {9}), zero(DataType::U8, {}), scale(DataType::F32, {}), y(DataType::F32, {9});
    // The zero point is cast once more.
    EXPECT_EQ(steps_of(dequantize(DataType::U8), {x, zero, scale}, y, Isa::Avx2), 2u);
    EXPECT_EQ(steps_of(dequantize(DataType::U8), {x, zero, scale}, y, Isa::Scalar), 4u);
    EXPECT_EQ(steps_of(quantize(DataType::U8, 0, 255), {y, zero}, x, Isa::Avx2), 2u);
    // Another range is no saturation.
    EXPECT_EQ(steps_of(quantize(DataType::U8, 0, 127), {y, zero}, x, Isa::Avx2), 5u);
    auto both = dequantize(DataType::U8);
    both.outputs.push_back(4);
    auto in = operands_of({x, zero, scale}), out = operands_of({y, y});
    auto program = elementwise::TileProgram::make(both, request_of(in, out, Isa::Avx2, 1), Isa::Avx2);
    ASSERT_TRUE(program.ok());
    // What somebody else reads stays.
    EXPECT_EQ((*program)->steps.size(), 4u);
}

}  // namespace
}  // namespace refactor::kernel::test
