#include "kernel/procedures/text.h"

#include "common/error.h"
#include "common/thread_pool.h"
#include "mem_manager/blob.h"
#include "numbers.h"
#include "random_test.h"
#include "unicode_case.h"
#include "utf8.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace refactor::kernel {
namespace {

using runtime::Value;
using Texts = std::vector<std::string>;

std::vector<Value> call(ProcedurePtr const& procedure, std::vector<Value> const& inputs, size_t outputs = 1) {
    static auto const kPool = std::make_shared<ThreadPool>(2);
    static std::string const kAllocator = "default";
    std::vector<Value const*> operands;
    for (auto const& input : inputs) operands.push_back(&input);
    std::vector<Value> results(outputs);
    procedure->call(operands, results, {kPool, {}, nullptr, kAllocator});
    return results;
}

Value text(Dims dims, Texts texts) { return Value::strings(std::move(dims), std::move(texts)); }

TEST(Text, EqualAndConcatBroadcast) {
    auto a = text({3, 1}, {"a", "", "ä"}), b = text({2}, {"a", "ä"});
    auto equal = call(make_text_equal(), {a, b})[0];
    EXPECT_EQ(equal.dims, (Dims{3, 2}));
    std::vector<bool> expected{true, false, false, false, false, true};
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(equal.data<bool>()[i], expected[i]) << i;
    auto joined = call(make_text_concat(), {a, b})[0];
    EXPECT_EQ(joined.contents->strings, (Texts{"aa", "aä", "a", "ä", "äa", "ää"}));
    EXPECT_EQ(call(make_text_concat(), {text({0, 1}, {}), b})[0].dims, (Dims{0, 2}));
    EXPECT_THROW(call(make_text_equal(), {text({3}, {"", "", ""}), b}), InvalidInput);
}

TEST(Text, ThreadsAgreeWithOne) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    constexpr int64_t kRows = 321, kColumns = 17;
    auto make = [&](int64_t count) {
        Texts texts;
        for (int64_t i = 0; i < count; ++i) texts.emplace_back(random() % 3, static_cast<char>('a' + random() % 2));
        return texts;
    };
    auto a = make(kRows), b = make(kColumns);
    auto equal = call(make_text_equal(), {text({kRows, 1}, a), text({kColumns}, b)})[0];
    for (int64_t i = 0; i < kRows; ++i)
        for (int64_t k = 0; k < kColumns; ++k)
            ASSERT_EQ(equal.data<bool>()[i * kColumns + k], a[static_cast<size_t>(i)] == b[static_cast<size_t>(k)]);
}

TEST(Text, Split) {
    auto x = text({3}, {"a,b,,c", "", ","});
    auto parts = call(make_text_split({",", -1}), {x}, 2);
    EXPECT_EQ(parts[0].dims, (Dims{3, 4}));
    EXPECT_EQ(parts[0].contents->strings, (Texts{"a", "b", "", "c", "", "", "", "", "", "", "", ""}));
    EXPECT_EQ(parts[1].data<int64_t>()[0], 4);
    EXPECT_EQ(parts[1].data<int64_t>()[1], 1);
    EXPECT_EQ(parts[1].data<int64_t>()[2], 2);
    auto few = call(make_text_split({",", 1}), {x}, 2);
    EXPECT_EQ(few[0].contents->strings, (Texts{"a", "b,,c", "", "", "", ""}));
    auto spaces = call(make_text_split({"", 1}), {text({2}, {" \ta\u3000 b c ", " "})}, 2);
    EXPECT_EQ(spaces[0].contents->strings, (Texts{"a", "b c ", "", ""}));
    EXPECT_EQ(spaces[1].data<int64_t>()[1], 0);
    EXPECT_EQ(call(make_text_split({",", -1}), {text({2, 0}, {})}, 2)[0].dims, (Dims{2, 0, 0}));
}

TEST(Text, CaseChangesOneToOne) {
    EXPECT_EQ(text::upper("straße žü ǆ ω \xff!"), "STRAßE ŽÜ Ǆ Ω \xff!");
    EXPECT_EQ(text::lower("ÀΣЖ Ⴀ 𐐀 İ Z"), "àσж ⴀ 𐐨 İ z");
}

TEST(Text, DecodesOnlyUtf8) {
    for (std::string bad : {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"})
        EXPECT_EQ(text::decode(bad, 0).code, -1);
    EXPECT_EQ(text::decode("€", 0).code, 0x20ac);
    EXPECT_EQ(text::decode("𐐀", 0).length, 4u);
}

TEST(Text, NormalizerDropsStopWords) {
    TextNormalizerInfo info{TextNormalizerInfo::Case::Upper, false, {"MONDAY"}};
    auto y = call(make_text_normalizer(info), {text({1, 3}, {"monday", "tüesday", "Monday"})})[0];
    EXPECT_EQ(y.dims, (Dims{1, 1}));
    EXPECT_EQ(y.contents->strings, (Texts{"TÜESDAY"}));
    info.case_sensitive = true;
    EXPECT_EQ(call(make_text_normalizer(info), {text({2}, {"monday", "MONDAY"})})[0].contents->strings,
              (Texts{"MONDAY"}));
    EXPECT_EQ(call(make_text_normalizer(info), {text({1}, {"MONDAY"})})[0].contents->strings, (Texts{""}));
    EXPECT_THROW(call(make_text_normalizer(info), {text({2, 1}, {"", ""})}), InvalidInput);
}

TEST(Text, FormatsAsPython) {
    EXPECT_EQ(text::format(0.1f), "0.1");
    EXPECT_EQ(text::format(0.1), "0.1");
    EXPECT_EQ(text::format(-0.0), "-0.0");
    EXPECT_EQ(text::format(1e-5), "1e-05");
    EXPECT_EQ(text::format(0.0001), "0.0001");
    EXPECT_EQ(text::format(123456789012345680.0), "1.2345678901234568e+17");
    EXPECT_EQ(text::format(1e15), "1000000000000000.0");
    EXPECT_EQ(text::format(-1.5e300), "-1.5e+300");
    EXPECT_EQ(text::format(-HUGE_VAL), "-inf");
    EXPECT_EQ(text::format(std::nan("")), "nan");
    EXPECT_EQ(text::format(0.099975586f, DataType::F16), "0.1");
    EXPECT_EQ(text::format(3.390625f, DataType::BF16), "3.39");
}

TEST(Text, ParsesNumbers) {
    EXPECT_EQ(text::parse_double(" +1.5e3\n"), 1500.0);
    EXPECT_EQ(text::parse_double("-INF"), -HUGE_VAL);
    EXPECT_TRUE(std::isnan(*text::parse_double("NaN")));
    EXPECT_EQ(text::parse_double("1e400"), HUGE_VAL);
    EXPECT_EQ(text::parse_double("-0.001e-400"), 0.0);
    EXPECT_EQ(text::parse_double("0" + std::string(400, '0') + "1e-3"), 1e-3);
    EXPECT_EQ(text::parse_float("1e39"), HUGE_VALF);
    for (std::string bad : {"", "+-1", "1x", "1 2", "nan(1)", "0x10", "--1"})
        EXPECT_FALSE(text::parse_double(bad)) << bad;
}

TEST(Text, EveryFloatSurvives) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (int i = 0; i < 20'000; ++i) {
        auto bits = static_cast<uint32_t>(random());
        float value;
        std::memcpy(&value, &bits, sizeof value);
        if (std::isnan(value)) continue;
        ASSERT_EQ(text::parse_float(text::format(value)), value) << text::format(value);
    }
}

TEST(Text, CastsIntegers) {
    auto cast = [](DataType to, Texts texts) {
        auto count = static_cast<int64_t>(texts.size());
        return call(make_text_cast({DataType::String, to}), {text({count}, std::move(texts))})[0];
    };
    auto y = cast(DataType::I64, {"-9223372036854775808", " 42 ", "+7", "3.9", "-3.9", "1e3"});
    std::vector<int64_t> expected{INT64_MIN, 42, 7, 3, -3, 1000};
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(y.data<int64_t>()[i], expected[i]);
    EXPECT_EQ(cast(DataType::U64, {"18446744073709551615"}).data<uint64_t>()[0], UINT64_MAX);
    EXPECT_EQ(cast(DataType::I8, {"-128"}).data<int8_t>()[0], -128);
    for (auto [type, bad] : {std::pair{DataType::I8, "128"},
                             {DataType::U8, "-1"},
                             {DataType::I64, "1e19"},
                             {DataType::U64, "-1"},
                             {DataType::I32, "nan"},
                             {DataType::F32, "one"},
                             {DataType::Bool, ""}})
        EXPECT_THROW(cast(type, {bad}), InvalidInput) << name_of(type) << bad;
    auto flags = cast(DataType::Bool, {"TRUE", "false", "0", "-2"});
    std::vector<bool> truth{true, false, false, true};
    for (size_t i = 0; i < truth.size(); ++i) EXPECT_EQ(flags.data<bool>()[i], truth[i]);
}

}  // namespace
}  // namespace refactor::kernel
