#pragma once
#include "attention/attention.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

// Scores of at most about 16 (eps 1e-6) from d products (error d * eps), exp of them, and a mean of values of size
// about 1.
constexpr Tolerance kTolerance{1e-5, 1e-5};

struct Case {
    int64_t batch, heads, kv_heads, queries, keys, depth, value_depth;
};

/// `others`: the mask and the sinks that `info` speaks of; `scale`: 0 for the usual one.
inline void check(Case const& c, AttentionInfo info, std::mt19937& random, std::vector<Tensor> others,
                  float scale = 0) {
    info.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(c.depth));
    auto k_dims =
        info.k_transposed ? Dims{c.batch, c.kv_heads, c.depth, c.keys} : Dims{c.batch, c.kv_heads, c.keys, c.depth};
    std::vector<Tensor> inputs{random_f32({c.batch, c.heads, c.queries, c.depth}, random), random_f32(k_dims, random),
                               random_f32({c.batch, c.kv_heads, c.keys, c.value_depth}, random)};
    for (auto& other : others) inputs.push_back(other);
    check_candidates(info, inputs, {Tensor(DataType::F32, {c.batch, c.heads, c.queries, c.value_depth})}, kTolerance);
}

Case const kCases[]{{1, 2, 2, 5, 7, 8, 8},       {2, 3, 3, 37, 65, 64, 64},   {1, 4, 2, 1, 131, 64, 64},
                    {1, 2, 1, 129, 129, 32, 48}, {1, 6, 2, 3, 77, 80, 72},    {2, 2, 2, 70, 300, 24, 20},
                    {1, 1, 1, 9, 4, 16, 16},     {1, 2, 2, 1, 1, 64, 64},     {1, 2, 1, 53, 1100, 16, 24},
                    {1, 4, 2, 2, 1301, 32, 32},  {1, 1, 1, 61, 600, 64, 128}, {2, 4, 2, 300, 7, 16, 24},
                    {1, 2, 2, 65, 49, 32, 32},   {3, 1, 1, 129, 16, 130, 3}};

}  // namespace
}  // namespace refactor::kernel::test
