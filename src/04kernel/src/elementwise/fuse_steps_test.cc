#include "elementwise/fuse_steps.h"

#include "reduce/kernel_test.h"

#include <cmath>
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

/// round(x / scale) + zero, saturated; inputs x, zero, scale.
ElementwiseInfo quantize_scaled(DataType type) {
    double low = type == DataType::I8 ? -128 : 0;
    return {{Code{.op = ExprOp::Input, .dtype = DataType::F32, .operands = {0}},
             Code{.op = ExprOp::Input, .dtype = DataType::F32, .operands = {2}},
             Code{.op = ExprOp::Div, .dtype = DataType::F32, .operands = {0, 1}},
             Code{.op = ExprOp::Round, .dtype = DataType::F32, .operands = {2}},
             Code{.op = ExprOp::Input, .dtype = type, .operands = {1}},
             Code{.op = ExprOp::Cast, .dtype = DataType::F32, .operands = {4}},
             Code{.op = ExprOp::Add, .dtype = DataType::F32, .operands = {3, 5}},
             Code{.op = ExprOp::Constant, .dtype = DataType::F32, .value = low},
             Code{.op = ExprOp::Constant, .dtype = DataType::F32, .value = low + 255},
             Code{.op = ExprOp::Clip, .dtype = DataType::F32, .operands = {6, 7, 8}},
             Code{.op = ExprOp::Cast, .dtype = type, .operands = {9}}},
            {10}};
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

/// Quotients halfway between integers, and next to it, round as those of a division.
TEST(FuseSteps, QuotientsAreThoseOfADivision) {
    std::mt19937 random(seed_of(333));
    constexpr auto kInf = std::numeric_limits<float>::infinity();
    constexpr float kSpecial[] = {kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 3e38f, -3e38f, 0.f, -0.f};
    for (auto type : {DataType::U8, DataType::I8})
        for (auto const& shape : kShapes)
            for (int exponent : {-90, -12, -7, 0, 3, 70}) {
                auto scale = random_f32(shape, random), x = random_f32({5, 7, 33}, random);
                auto scales = scale.desc.count();
                for (int64_t i = 0; i < scales; ++i)
                    scale.as<float>()[i] = std::ldexp(1.f + static_cast<float>(random() % 8388608) / 8388608, exponent);
                for (int64_t i = 0; i < 1155; ++i) {
                    auto steps = static_cast<float>(static_cast<int>(random() % 600)) - 300.5f;
                    auto value = steps * scale.as<float>()[random() % static_cast<size_t>(scales)];
                    auto toward = random() % 3;
                    x.as<float>()[i] = toward == 0 ? value : std::nextafter(value, toward == 1 ? kInf : -kInf);
                }
                for (auto value : kSpecial) x.as<float>()[random() % 1155] = value;
                check_candidates(quantize_scaled(type), {x, random_bytes(type, shape, random), scale},
                                 {Tensor(type, {5, 7, 33})}, {});
            }
}

/// One value of a long row serves all of it, and what is made of it is made once.
TEST(FuseSteps, ZeroPointsOfLongRows) {
    std::mt19937 random(seed_of(334));
    for (auto type : {DataType::U8, DataType::I8}) {
        auto scale = random_f32({7, 1}, random);
        for (int64_t i = 0; i < 7; ++i) scale.as<float>()[i] = 0.01f + std::abs(scale.as<float>()[i]);
        auto zero = random_bytes(type, {7, 1}, random);
        auto x = random_f32({3, 7, 9001}, random, 3);
        for (int64_t i = 0; i < 9; ++i) x.as<float>()[random() % 189021] = std::numeric_limits<float>::quiet_NaN();
        check_candidates(quantize_scaled(type), {x, zero, scale}, {Tensor(type, {3, 7, 9001})}, {});
        check_candidates(dequantize(type), {random_bytes(type, {3, 7, 401}, random), zero, scale},
                         {Tensor(DataType::F32, {3, 7, 401})}, {});
    }
}

/// x * scale + shift, or shift + x * scale.
ElementwiseInfo scaled(DataType type, bool sum_first) {
    uint16_t product = 3, shift = 2;
    return {
        {Code{.op = ExprOp::Input, .dtype = type, .operands = {0}},
         Code{.op = ExprOp::Input, .dtype = type, .operands = {1}},
         Code{.op = ExprOp::Input, .dtype = type, .operands = {2}},
         Code{.op = ExprOp::Mul, .dtype = type, .operands = {0, 1}},
         Code{
             .op = ExprOp::Add, .dtype = type, .operands = {sum_first ? shift : product, sum_first ? product : shift}}},
        {4}};
}

/// Rounded twice, as by two steps: the same bits.
TEST(FuseSteps, ProductsAreRoundedBeforeTheSum) {
    std::mt19937 random(seed_of(335));
    for (auto const& shape : std::vector<Dims>{{}, {7, 1}, {401}, {5, 7, 401}})
        for (bool sum_first : {false, true}) {
            auto x = random_f32({5, 7, 401}, random), scale = random_f32(shape, random);
            auto shift = random_f32(shape, random);
            constexpr auto kInf = std::numeric_limits<float>::infinity();
            for (auto v : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 3e38f, 1e-40f, -0.f})
                x.as<float>()[random() % 14035] = v;
            check_candidates(scaled(DataType::F32, sum_first), {x, scale, shift}, {Tensor(DataType::F32, {5, 7, 401})},
                             {});
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
    EXPECT_EQ(steps_of(quantize_scaled(DataType::U8), {y, zero, scale}, x, Isa::Avx2), 2u);
    EXPECT_EQ(steps_of(scaled(DataType::F32, true), {y, scale, scale}, y, Isa::Avx2), 1u);
    EXPECT_EQ(steps_of(scaled(DataType::F32, true), {y, scale, scale}, y, Isa::Scalar), 2u);
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
