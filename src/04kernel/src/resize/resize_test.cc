#include "common/half.h"
#include "kernel/ops/movement.h"
#include "movement/movement_test.h"

#include <cmath>

namespace refactor::kernel {
namespace {

using namespace testing;

constexpr Layout kLayouts[] = {Layout::Plain, Layout::Blocked16, Layout::Blocked8, Layout::Blocked32};
DataType type_in(Layout layout, DataType plain) {
    return layout == Layout::Plain ? plain : layout == Layout::Blocked32 ? DataType::BF16 : DataType::F32;
}

ResizeInfo make(ResizeMode mode, ResizeCoordinates coordinates = ResizeCoordinates::HalfPixel,
                ResizeRounding rounding = ResizeRounding::RoundPreferFloor) {
    ResizeInfo info;
    info.mode = mode, info.coordinates = coordinates, info.rounding = rounding;
    return info;
}

std::vector<float> run_1d(ResizeInfo const& info, std::vector<float> const& x, int64_t out) {
    auto n = static_cast<int64_t>(x.size());
    std::vector<Tensor> inputs{Tensor(DataType::F32, {1, n}).set(x)};
    auto answers = run_all(info, inputs, {Tensor(DataType::F32, {1, out})});
    auto* y = answers.back().outputs[0].as<float>();
    return {y, y + out};
}

void expect_close(std::vector<float> const& actual, std::vector<float> const& expected) {
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5f) << i;
}

/// Values of the ONNX operator's documentation and of its reference implementation.
TEST(Resize, KnownValues) {
    auto linear = make(ResizeMode::Linear);
    expect_close(run_1d(linear, {1, 2, 3, 4}, 8), {1, 1.25f, 1.75f, 2.25f, 2.75f, 3.25f, 3.75f, 4});
    linear.coordinates = ResizeCoordinates::AlignCorners;
    expect_close(run_1d(linear, {1, 2, 3, 4}, 7), {1, 1.5f, 2, 2.5f, 3, 3.5f, 4});
    linear.coordinates = ResizeCoordinates::HalfPixel;
    linear.antialias = true;
    // Triangle of support 2 around 0.5 and 2.5, edges repeated: weights 1, 3, 3, 1 over 8.
    expect_close(run_1d(linear, {1, 2, 3, 4}, 2), {(1 + 3 + 6 + 3) / 8.f, (2 + 9 + 12 + 4) / 8.f});
    auto cubic = make(ResizeMode::Cubic);
    expect_close(run_1d(cubic, {1, 1, 1, 1, 1}, 13), std::vector<float>(13, 1.f));
    cubic.exclude_outside = true;
    expect_close(run_1d(cubic, {2, 2, 2}, 7), std::vector<float>(7, 2.f));
    auto nearest = make(ResizeMode::Nearest, ResizeCoordinates::Asymmetric, ResizeRounding::Floor);
    expect_close(run_1d(nearest, {1, 2, 3}, 6), {1, 1, 2, 2, 3, 3});
    auto crop = make(ResizeMode::Linear, ResizeCoordinates::TfCropAndResize);
    crop.roi = {0, 0.5f, 1, 1.5f};
    crop.extrapolation = -9;
    expect_close(run_1d(crop, {0, 1, 2, 3, 4}, 3), {2, 4, -9});
}

TEST(Resize, NearestEqualsReference) {
    for (uint32_t seed = 0; seed < 80; ++seed) {
        std::mt19937 random(seed);
        SCOPED_TRACE("seed " + std::to_string(seed));
        auto layout = kLayouts[seed / 2 % 4];
        auto type = type_in(layout, kWidths[seed / 8 % 4]);
        Dims x{2, pick(random, 1, 40), pick(random, 1, 15), pick(random, 1, 15)}, y = x;
        y[2] = seed % 2 ? 2 * x[2] : pick(random, 1, 30), y[3] = seed % 2 ? 2 * x[3] : pick(random, 1, 30);
        auto info =
            make(ResizeMode::Nearest, static_cast<ResizeCoordinates>(seed % 5), static_cast<ResizeRounding>(seed % 4));
        if (seed % 10 == 9) info.coordinates = ResizeCoordinates::TfHalfPixelForNn;
        expect_equal(info, {Tensor(type, x, layout).fill(random)}, {Tensor(type, y, layout)});
        if (HasFatalFailure()) return;
    }
}

TEST(Resize, NearestOfAnyAxes) {
    for (uint32_t seed = 0; seed < 80; ++seed) {
        std::mt19937 random(seed);
        SCOPED_TRACE("seed " + std::to_string(seed));
        auto layout = kLayouts[seed / 2 % 4];
        auto type = type_in(layout, kWidths[seed / 8 % 4]);
        Dims x{2, pick(random, 1, 20)};
        for (uint32_t axis = 0; axis < (seed % 2 ? 3u : 1u); ++axis) x.push_back(pick(random, 1, 9));
        auto y = x;
        for (size_t axis = layout == Layout::Plain ? 0 : 2; axis < x.size(); ++axis)
            if (pick(random, 0, 2)) y[axis] = seed % 4 ? 2 * x[axis] : pick(random, 1, 20);
        auto info =
            make(ResizeMode::Nearest, static_cast<ResizeCoordinates>(seed % 5), static_cast<ResizeRounding>(seed % 4));
        std::vector<Tensor> inputs{Tensor(type, x, layout).fill(random)};
        EXPECT_NE(run_all(info, inputs, {Tensor(type, y, layout)}).front().id.find("nearest"), std::string::npos);
        expect_equal(info, inputs, {Tensor(type, y, layout)});
        if (HasFatalFailure()) return;
    }
}

TEST(Resize, LinearIsCloseToReference) {
    for (uint32_t seed = 0; seed < 60; ++seed) {
        std::mt19937 random(seed);
        SCOPED_TRACE("seed " + std::to_string(seed));
        auto layout = kLayouts[seed % 3];
        Dims x{2, 16 * pick(random, 1, 3), pick(random, 1, 15), pick(random, 1, 15)}, y = x;
        y[2] = pick(random, 1, 30), y[3] = pick(random, 1, 30);
        Tensor data(DataType::F32, x, layout);
        std::normal_distribution<float> normal;
        for (int64_t i = 0; i < data.stored_count(); ++i) data.as<float>()[i] = normal(random);
        std::vector<Tensor> inputs{data};
        auto info = make(ResizeMode::Linear, static_cast<ResizeCoordinates>(seed % 5));
        auto answers = run_all(info, inputs, {Tensor(DataType::F32, y, layout)});
        EXPECT_GE(answers.size(), 4u);
        auto& expected = answers.back().outputs[0];
        // Three roundings of values below 5.
        for (auto& answer : answers)
            for (int64_t i = 0; i < expected.stored_count(); ++i)
                ASSERT_NEAR(answer.outputs[0].as<float>()[i], expected.as<float>()[i], 3 * 5 * 6e-8f)
                    << answer.id << " " << i;
    }
}

/// Sums in f32, rounded once: within one unit in the last place, and channels that do not exist stay zero.
TEST(Resize, LinearOfBf16IsCloseToReference) {
    for (uint32_t seed = 0; seed < 60; ++seed) {
        std::mt19937 random(seed);
        SCOPED_TRACE("seed " + std::to_string(seed));
        auto layout = seed % 3 ? Layout::Blocked32 : Layout::Plain;
        Dims x{2, pick(random, 1, 70), pick(random, 1, 15), pick(random, 1, 15)}, y = x;
        y[2] = pick(random, 1, 30), y[3] = pick(random, 1, 30);
        Tensor data(DataType::BF16, x, layout);
        std::normal_distribution<float> normal;
        auto padded = (x[1] + 31) / 32 * 32, plane = x[2] * x[3] * 32;
        for (int64_t i = 0; i < data.stored_count(); ++i) {
            auto channel = i / plane * 32 % padded + i % 32;
            data.as<uint16_t>()[i] = layout == Layout::Plain || channel < x[1] ? bf16_from_f32(normal(random)) : 0;
        }
        std::vector<Tensor> inputs{data};
        auto info = make(seed % 2 ? ResizeMode::Cubic : ResizeMode::Linear, static_cast<ResizeCoordinates>(seed % 5));
        auto answers = run_all(info, inputs, {Tensor(DataType::BF16, y, layout)});
        EXPECT_NE(answers.front().id.find("planes"), std::string::npos);
        auto& expected = answers.back().outputs[0];
        for (auto& answer : answers)
            for (int64_t i = 0; i < expected.stored_count(); ++i) {
                auto want = f32_from_bf16(expected.as<uint16_t>()[i]);
                // And the error of f32 of what cancels.
                ASSERT_NEAR(f32_from_bf16(answer.outputs[0].as<uint16_t>()[i]), want, std::abs(want) * 0x1p-7f + 1e-6f)
                    << answer.id << " " << i;
            }
    }
}

/// Every mode and coordinate system, any axes, all layouts and element types.
TEST(Resize, SeparableIsCloseToReference) {
    constexpr DataType kTypes[]{DataType::F32, DataType::F64, DataType::U8, DataType::I8, DataType::I32, DataType::F32};
    for (uint32_t seed = 0; seed < 120; ++seed) {
        std::mt19937 random(seed);
        SCOPED_TRACE("seed " + std::to_string(seed));
        auto layout = seed % 4 ? Layout::Plain : seed % 8 ? Layout::Blocked16 : Layout::Blocked8;
        auto type = layout == Layout::Plain ? kTypes[seed % 6] : DataType::F32;
        Dims x{2, 16 * pick(random, 1, 2), pick(random, 1, 15), pick(random, 1, 15)}, y = x;
        y[2] = pick(random, 1, 30), y[3] = pick(random, 1, 30);
        if (layout == Layout::Plain && seed % 3 == 0) y[pick(random, 0, 1)] += pick(random, 0, 5);
        auto info = make(seed % 2 ? ResizeMode::Cubic : ResizeMode::Linear, static_cast<ResizeCoordinates>(seed % 7));
        info.antialias = seed % 5 == 1, info.exclude_outside = seed % 3 == 1;
        if (info.coordinates == ResizeCoordinates::TfCropAndResize)
            info.roi = {0, 0, 0.2f, -0.1f, 1, 1, 1.3f, 0.9f}, info.extrapolation = 7;
        Tensor data(type, x, layout);
        std::normal_distribution<float> normal;
        if (type == DataType::F32)
            for (int64_t i = 0; i < data.stored_count(); ++i) data.as<float>()[i] = normal(random);
        else if (type == DataType::F64)
            for (int64_t i = 0; i < data.stored_count(); ++i) data.as<double>()[i] = normal(random);
        else
            data.fill(random);
        std::vector<Tensor> inputs{data};
        auto answers = run_all(info, inputs, {Tensor(type, y, layout)});
        auto& expected = answers.back().outputs[0];
        int separable = 0;
        for (auto& answer : answers) {
            separable += answer.id.find("separable") != std::string::npos;
            if (type != DataType::F32) {
                ASSERT_EQ(std::memcmp(answer.outputs[0].data(), expected.data(), expected.bytes()), 0) << answer.id;
                continue;
            }
            // A rounding for each of up to 32 taps of two axes, of values and partial sums below 10.
            for (int64_t i = 0; i < expected.stored_count(); ++i)
                ASSERT_NEAR(answer.outputs[0].as<float>()[i], expected.as<float>()[i], 64 * 10 * 6e-8f)
                    << answer.id << " " << i;
        }
        EXPECT_GE(separable, 1);
    }
}

/// Images whose rows are short are turned, in strips; of the last there are several.
TEST(Resize, NarrowImagesAreCloseToReference) {
    for (uint32_t seed = 0; seed < 61; ++seed) {
        std::mt19937 random(seed);
        SCOPED_TRACE("seed " + std::to_string(seed));
        Dims x{2, pick(random, 1, 5), pick(random, 1, 150), pick(random, 1, 40)}, y = x;
        y[2] = pick(random, 32, 300), y[3] = pick(random, 1, 40);
        if (seed == 60) x = {1, 2, 9001, 7}, y = {1, 2, 20003, 5};
        Tensor data(DataType::F32, x);
        std::normal_distribution<float> normal;
        for (int64_t i = 0; i < data.count(); ++i) data.as<float>()[i] = normal(random);
        std::vector<Tensor> inputs{data};
        auto info = make(seed % 2 ? ResizeMode::Cubic : ResizeMode::Linear, static_cast<ResizeCoordinates>(seed % 5));
        info.antialias = seed % 3 == 1, info.exclude_outside = seed % 7 == 1;
        auto answers = run_all(info, inputs, {Tensor(DataType::F32, y)});
        EXPECT_NE(answers.front().id.find("planes"), std::string::npos);
        auto& expected = answers.back().outputs[0];
        // A rounding for each of up to 32 taps of two axes, of values and partial sums below 10.
        for (auto& answer : answers)
            for (int64_t i = 0; i < expected.count(); ++i)
                ASSERT_NEAR(answer.outputs[0].as<float>()[i], expected.as<float>()[i], 64 * 10 * 6e-8f)
                    << answer.id << " " << i;
    }
}

TEST(Resize, NearestOfNarrowImages) {
    for (uint32_t seed = 0; seed < 40; ++seed) {
        std::mt19937 random(seed);
        SCOPED_TRACE("seed " + std::to_string(seed));
        auto type = kWidths[seed % 4];
        Dims x{pick(random, 1, 3), pick(random, 1, 100), pick(random, 1, 10)}, y = x;
        y[1] = pick(random, 1, 400), y[2] = pick(random, 1, 20);
        auto info =
            make(ResizeMode::Nearest, static_cast<ResizeCoordinates>(seed % 5), static_cast<ResizeRounding>(seed % 4));
        expect_equal(info, {Tensor(type, x).fill(random)}, {Tensor(type, y)});
        if (HasFatalFailure()) return;
    }
}

TEST(Resize, ElementsOfNoWeightAreNotReadOfNarrowImages) {
    auto linear = make(ResizeMode::Linear, ResizeCoordinates::Asymmetric);
    std::vector<float> values(64 * 3, 1);
    values[30 * 3 + 1] = INFINITY;
    std::vector<Tensor> inputs{Tensor(DataType::F32, {1, 1, 64, 3}).set(values)};
    for (auto& answer : run_all(linear, inputs, {Tensor(DataType::F32, {1, 1, 64, 3})}))
        for (int64_t i = 0; i < 64 * 3; ++i)
            EXPECT_EQ(answer.outputs[0].as<float>()[i], values[static_cast<size_t>(i)]) << answer.id << " " << i;
}

TEST(Resize, ElementsOfNoWeightAreNotRead) {
    auto cubic = make(ResizeMode::Cubic, ResizeCoordinates::Asymmetric);
    std::vector<Tensor> inputs{Tensor(DataType::F32, {1, 4}).set(std::vector<float>{1, INFINITY, 3, 4})};
    for (auto& answer : run_all(cubic, inputs, {Tensor(DataType::F32, {1, 4})})) {
        auto* y = answer.outputs[0].as<float>();
        EXPECT_EQ(y[0], 1) << answer.id;
        EXPECT_EQ(y[3], 4) << answer.id;
    }
}

}  // namespace
}  // namespace refactor::kernel
