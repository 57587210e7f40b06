#include "common/cpu_features.h"
#include "common/error.h"
#include "common/log.h"
#include "common/result.h"
#include "common/small_vector.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace refactor {
namespace {

TEST(Error, ContextsReadOutsideIn) {
    InvalidModel error("no input 'x'");
    error.add_context("node 'conv1' (Conv)");
    error.add_context("model.onnx");
    EXPECT_STREQ(error.what(), "model.onnx: node 'conv1' (Conv): no input 'x'");
    EXPECT_EQ(error.message(), "no input 'x'");
    EXPECT_EQ(error.contexts().size(), 2u);
}

TEST(Error, EnsureNamesThePlace) {
    EXPECT_NO_THROW(ensure(true, "fine"));
    try {
        ensure(false, "broken");
        FAIL();
    } catch (InternalError const& error) {
        EXPECT_NE(std::string(error.what()).find("base_test.cc"), std::string::npos);
    }
    EXPECT_STREQ(DeviceError("cudaMalloc(p, 4)", 2, "out of memory").what(),
                 "cudaMalloc(p, 4) failed with code 2: out of memory");
}

TEST(Result, HoldsOneSide) {
    Result<std::unique_ptr<int>, std::string> value = std::make_unique<int>(3);
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(**value, 3);
    auto taken = std::move(value).value();
    EXPECT_EQ(*taken, 3);
    Result<int, std::string> failure = Err{"reason"};
    ASSERT_FALSE(failure);
    EXPECT_EQ(failure.error(), "reason");
    EXPECT_THROW(failure.value(), std::bad_variant_access);
    // The same type on both sides is no ambiguity.
    Result<int, int> same = Err{4};
    EXPECT_EQ(same.error(), 4);
}

TEST(SmallVector, GrowsPastItsInlineRoom) {
    SmallVector<int64_t, 2> v{1, 2};
    for (int64_t i = 3; i <= 20; ++i) v.push_back(i);
    auto copy = v;
    auto moved = std::move(v);
    EXPECT_TRUE(v.empty());
    EXPECT_EQ(copy, moved);
    ASSERT_EQ(moved.size(), 20u);
    for (size_t i = 0; i < 20; ++i) EXPECT_EQ(moved[i], static_cast<int64_t>(i + 1));
    moved.insert(moved.begin() + 1, 100);
    moved.erase(moved.begin());
    EXPECT_EQ(moved.front(), 100);
    EXPECT_EQ(moved[1], 2);
    moved.resize(3);
    moved.resize(5, 9);
    EXPECT_EQ(moved, (SmallVector<int64_t, 2>{100, 2, 3, 9, 9}));
    copy = moved;
    moved = std::move(copy);
    EXPECT_EQ(moved.back(), 9);
    EXPECT_NE(moved, (SmallVector<int64_t, 2>{100}));
    SmallVector<int64_t, 2> inlined{5}, target{1, 2, 3};
    target = std::move(inlined);
    EXPECT_EQ(target, (SmallVector<int64_t, 2>{5}));
}

TEST(SmallVector, AppendsAnElementOfItself) {
    Dims v;
    for (int i = 0; i < 8; ++i) v.push_back(i);
    v.push_back(v[3]);
    EXPECT_EQ(v.back(), 3);
    EXPECT_EQ(element_count(Dims{}), 1);
    EXPECT_EQ(element_count(Dims{3, 0, 5}), 0);
}

TEST(CpuFeatures, IsPlausible) {
    auto const& features = cpu_features();
    EXPECT_GE(features.l1d, size_t(8) << 10);
    EXPECT_GE(features.l2, features.l1d);
    EXPECT_FALSE(name_of(features.isa).empty());
    EXPECT_EQ(&features, &cpu_features());
}

TEST(CpuFeatures, AnOverrideOnlyLowers) {
    CpuFeatures scalar, avx2, avx512;
    avx2.isa = Isa::Avx2, avx512.isa = Isa::Avx512;
    EXPECT_EQ(lower_isa(avx512, "avx2"), Isa::Avx2);
    EXPECT_EQ(lower_isa(avx512, "avx512"), Isa::Avx512);
    EXPECT_EQ(lower_isa(scalar, "scalar"), Isa::Scalar);
    EXPECT_THROW(lower_isa(avx2, "avx512vnni"), InvalidInput);
    EXPECT_THROW(lower_isa(avx512, "avx512bf16"), InvalidInput);
    EXPECT_THROW(lower_isa(avx512, "avx512amx"), InvalidInput);
    EXPECT_THROW(lower_isa(avx2, "avx2vnni"), InvalidInput);
    EXPECT_THROW(lower_isa(avx512, "avx2vnni"), InvalidInput);
    EXPECT_THROW(lower_isa(avx2, "sse"), InvalidInput);
    EXPECT_THROW(lower_isa(avx2, ""), InvalidInput);
    avx512.avx2_vnni = true;
    EXPECT_EQ(lower_isa(avx512, "avx2vnni"), Isa::Avx2Vnni);
}

TEST(Log, LevelAndSink) {
    std::vector<std::string> seen;
    auto before = log_level();
    set_log_sink([](LogLevel, std::string_view text,
                    void* user) { static_cast<std::vector<std::string>*>(user)->emplace_back(text); },
                 &seen);
    set_log_level(LogLevel::Warning);
    log(LogLevel::Info, "hidden");
    log(LogLevel::Warning, "shown");
    EXPECT_FALSE(log_enabled(LogLevel::Debug));
    set_log_level(LogLevel::Off);
    log(LogLevel::Error, "hidden");
    log(LogLevel::Off, "never");
    set_log_sink(nullptr, nullptr);
    set_log_level(before);
    EXPECT_EQ(seen, std::vector<std::string>{"shown"});
}

}  // namespace
}  // namespace refactor
