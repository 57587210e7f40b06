#include "attention/attention.h"
#include "reduce/kernel_test.h"

#include <limits>

namespace refactor::kernel::test {
namespace {

// As of attention_test.cc.
constexpr Tolerance kTolerance{1e-5, 1e-5};

struct Sizes {
    int64_t heads, kv_heads, queries, keys;
};
// Rows that read keys in place, rows in one block and in several, keys in one block and in several.
Sizes const kSizes[]{{2, 2, 1, 19}, {4, 2, 3, 40}, {2, 1, 70, 90}, {1, 1, 5, 1300}, {2, 2, 61, 1100}};
constexpr int64_t kDepth = 12;

std::vector<Tensor> operands_of(Sizes const& s, std::mt19937& random) {
    return {random_f32({1, s.heads, s.queries, kDepth}, random), random_f32({1, s.kv_heads, s.keys, kDepth}, random),
            random_f32({1, s.kv_heads, s.keys, kDepth}, random)};
}
void fill_row(Tensor& tensor, int64_t row, float value) {
    std::fill_n(tensor.as<float>() + row * kDepth, kDepth, value);
}
/// How many results of the reference are NaN, which all candidates agree on.
int64_t check(AttentionInfo const& info, Sizes const& s, std::vector<Tensor> const& inputs) {
    std::vector<Tensor> outputs{Tensor(DataType::F32, {1, s.heads, s.queries, kDepth})};
    check_candidates(info, inputs, outputs, kTolerance);
    auto copy = inputs;
    auto in = test::operands_of(inputs), results = test::operands_of(outputs);
    auto found = candidates(info, request_of(in, results, Isa::Scalar, 1));
    PackCache packs;
    ThreadPool pool(1);
    run(*found.kernels.back(), copy, outputs, packs, pool);
    auto const* y = outputs[0].as<float>();
    return std::count_if(y, y + outputs[0].desc.count(), [](float x) { return std::isnan(x); });
}

TEST(AttentionNotFinite, WeightsThatAreNaN) {
    std::mt19937 random(seed_of(211));
    for (auto const& s : kSizes)
        for (float value : {NAN, INFINITY})
            for (int bits = 0; bits < 8; ++bits) {
                auto inputs = operands_of(s, random);
                auto query = s.queries / 2;
                // One score that is NaN or infinite: the query's only element times the key's.
                fill_row(inputs[0], query, 0), inputs[0].as<float>()[query * kDepth] = 1;
                inputs[1].as<float>()[s.keys / 3 * kDepth] = value;
                for (int64_t row = 0; row < s.heads * s.queries; ++row)
                    if (row != query) inputs[0].as<float>()[row * kDepth] = std::isnan(value) ? 0.F : -1.F;
                AttentionInfo info;
                info.nan_to_zero = bits & 1, info.unseen_to_zero = bits & 2, info.has_mask = bits & 4;
                if (info.has_mask) inputs.emplace_back(DataType::F32, Dims{s.keys});
                auto nan = check(info, s, inputs);
                if (!std::isnan(value)) {
                    EXPECT_EQ(nan, info.nan_to_zero ? 0 : kDepth);
                }
                if (info.nan_to_zero) {
                    EXPECT_EQ(nan, 0);
                }
            }
}

/// `hidden`: what masks of floats do there; `lowest`: by the lowest number.
void check_hidden(HiddenKeys hidden, bool is_bool, bool lowest, std::mt19937& random) {
    for (auto const& s : kSizes) {
        auto inputs = operands_of(s, random);
        inputs.emplace_back(is_bool ? DataType::Bool : DataType::F32, Dims{s.queries, s.keys});
        for (int64_t i = 0; i < inputs[3].desc.count(); ++i) {
            // Every seventh key, and what lies behind a row, as in a causal mask that leaves a third.
            auto row = i / s.keys, key = i % s.keys;
            bool shown = key % 7 != 3 && key <= s.keys / 3 + row;
            if (is_bool)
                inputs[3].as<bool>()[i] = shown;
            else
                inputs[3].as<float>()[i] = shown ? 0.25F : lowest ? std::numeric_limits<float>::lowest() : -INFINITY;
        }
        for (int64_t head = 0; head < s.kv_heads; ++head)
            for (int64_t key = 0; key < s.keys; ++key)
                if (key % 7 == 3 || key > s.keys / 3 + s.queries - 1) {
                    fill_row(inputs[1], head * s.keys + key, key % 2 ? NAN : INFINITY);
                    if (hidden == HiddenKeys::Absent || is_bool)
                        fill_row(inputs[2], head * s.keys + key, key % 2 ? INFINITY : NAN);
                }
        AttentionInfo info;
        info.has_mask = true, info.hidden = hidden;
        EXPECT_EQ(check(info, s, inputs), 0);
    }
}

TEST(AttentionNotFinite, HiddenScores) {
    std::mt19937 random(seed_of(212));
    for (bool lowest : {false, true}) check_hidden(HiddenKeys::Replaced, false, lowest, random);
}

TEST(AttentionNotFinite, HiddenKeys) {
    std::mt19937 random(seed_of(213));
    for (bool lowest : {false, true}) check_hidden(HiddenKeys::Absent, false, lowest, random);
    check_hidden(HiddenKeys::Added, true, false, random);
}

/// Values that some rows of a block see and others do not.
TEST(AttentionNotFinite, ValuesBehindARow) {
    std::mt19937 random(seed_of(214));
    for (auto const& s : kSizes)
        for (float value : {NAN, INFINITY})
            for (bool masked : {false, true}) {
                auto inputs = operands_of(s, random);
                auto key = s.keys - 1 - s.queries / 2;
                fill_row(inputs[2], key, value);
                AttentionInfo info;
                info.causal = !masked, info.has_mask = masked;
                if (masked) inputs.emplace_back(DataType::Bool, Dims{s.queries, s.keys});
                for (int64_t i = 0; masked && i < s.queries * s.keys; ++i)
                    inputs[3].as<bool>()[i] = i % s.keys <= s.keys - s.queries + i / s.keys;
                auto rows = s.queries / 2 + 1, heads = s.heads / s.kv_heads;
                EXPECT_EQ(check(info, s, inputs), std::isnan(value) ? rows * heads * kDepth : 0);
            }
}

}  // namespace
}  // namespace refactor::kernel::test
