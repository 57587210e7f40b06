#include "kernel/procedures/tfidf.h"

#include "common/error.h"
#include "common/thread_pool.h"
#include "mem_manager/blob.h"

#include <cstring>

#include <gtest/gtest.h>

namespace refactor::kernel {
namespace {

using runtime::Value;

std::vector<float> call(TfIdfInfo info, Value const& x) {
    static auto const kPool = std::make_shared<ThreadPool>(2);
    static std::string const kAllocator = "default";
    Value const* operand = &x;
    std::vector<Value> results(1);
    make_tfidf(std::move(info))->call({&operand, 1}, results, {kPool, {}, nullptr, kAllocator});
    return {results[0].data<float>(), results[0].data<float>() + results[0].count()};
}

Value numbers(Dims const& dims, std::vector<int64_t> const& elements) {
    Value value;
    std::memcpy(value.resize(DataType::I64, dims), elements.data(), elements.size() * sizeof(int64_t));
    return value;
}

/// 1-grams 2, 3, 5, 4 and 2-grams 5-6, 7-8, 6-7, as in the examples of the standard.
TfIdfInfo example(TfIdfInfo::Mode mode, int64_t shortest, int64_t skipped) {
    return {mode, shortest, 2, skipped, {0, 4}, {0, 1, 2, 3, 4, 5, 6}, {2, 3, 5, 4, 5, 6, 7, 8, 6, 7}, {}, {}};
}

TEST(TfIdf, SkipsItems) {
    auto x = numbers({12}, {1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8});
    using Mode = TfIdfInfo::Mode;
    EXPECT_EQ(call(example(Mode::Tf, 2, 0), x), (std::vector<float>{0, 0, 0, 0, 1, 1, 1}));
    EXPECT_EQ(call(example(Mode::Tf, 2, 5), x), (std::vector<float>{0, 0, 0, 0, 1, 3, 1}));
    EXPECT_EQ(call(example(Mode::Tf, 1, 5), x), (std::vector<float>{0, 3, 1, 0, 1, 3, 1}));
    EXPECT_EQ(call(example(Mode::Tf, 1, INT64_MAX - 1), x).size(), 7u);
}

TEST(TfIdf, Weighs) {
    auto x = numbers({2, 6}, {1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8});
    auto info = example(TfIdfInfo::Mode::Idf, 1, 0);
    EXPECT_EQ(call(info, x), (std::vector<float>{0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 1}));
    info.weights = {1, 2, 3, 4, 5, 6, 7};
    EXPECT_EQ(call(info, x), (std::vector<float>{0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 5, 0, 7}));
    info.mode = TfIdfInfo::Mode::TfIdf;
    EXPECT_EQ(call(info, x), (std::vector<float>{0, 6, 0, 0, 0, 0, 0, 0, 0, 3, 0, 5, 0, 7}));
}

TEST(TfIdf, CountsText) {
    TfIdfInfo info{TfIdfInfo::Mode::Tf, 1, 2, 0, {0, 1}, {1, 0}, {}, {"a", "b", "a"}, {}};
    EXPECT_EQ(call(info, Value::strings({4}, {"a", "b", "a", "b"})), (std::vector<float>{1, 2}));
    EXPECT_EQ(call(info, Value::strings({0}, {})), (std::vector<float>{0, 0}));
    EXPECT_THROW(call(info, Value::strings({1, 1, 1}, {"a"})), InvalidInput);
}

}  // namespace
}  // namespace refactor::kernel
