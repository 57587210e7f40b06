#pragma once
#include "kernel/ops/integer.h"
#include "reduce/kernel_test.h"

// What tests of integer products and convolutions share.

namespace refactor::kernel::test {
namespace {

inline Tensor random_bytes(DataType dtype, Dims dims, std::mt19937& random) {
    Tensor t(dtype, dims);
    for (int64_t i = 0; i < t.desc.count(); ++i) t.as<uint8_t>()[i] = static_cast<uint8_t>(random());
    return t;
}

/// One combination of types and optional operands.
struct IntegerCase {
    DataType a, b, y;
    bool bias, relu, constant;
};

/// Every sign of both operands with every output; the rest varies along.
inline std::vector<IntegerCase> integer_cases() {
    std::vector<IntegerCase> cases;
    int i = 0;
    for (auto a : {DataType::U8, DataType::I8})
        for (auto b : {DataType::U8, DataType::I8})
            for (auto y : {DataType::I32, DataType::F32, DataType::U8, DataType::I8}) {
                cases.push_back({a, b, y, i % 3 != 0, y != DataType::I32 && i % 5 < 2, i % 7 < 4});
                ++i;
            }
    return cases;
}

/// The operands behind A and B: `a_zeros` and `b_zeros` of those sizes (empty: one), biases and scales for `n` columns.
inline std::vector<Tensor> with_operands(IntegerCase const& c, Tensor a, Tensor b, Dims const& a_zeros,
                                         Dims const& b_zeros, int64_t n, int64_t k, bool many_scales,
                                         std::mt19937& random) {
    std::vector<Tensor> inputs{std::move(a), std::move(b), random_bytes(c.a, a_zeros, random),
                               random_bytes(c.b, b_zeros, random)};
    inputs[1].constant = c.constant;
    Tensor bias, scale, zero;
    if (c.bias) {
        bias = Tensor(DataType::I32, {n});
        for (int64_t j = 0; j < n; ++j) bias.as<int32_t>()[j] = static_cast<int32_t>(random() % 20001) - 10000;
    }
    if (c.y != DataType::I32) {
        scale = Tensor(DataType::F32, {many_scales ? n : 1});
        // Sums are of size 5000 sqrt(k): most results lie within a byte, some saturate.
        std::uniform_real_distribution<float> uniform(0.005f, 0.03f);
        for (int64_t j = 0; j < scale.desc.count(); ++j)
            scale.as<float>()[j] = uniform(random) / std::sqrt(static_cast<float>(std::max<int64_t>(1, k)));
    }
    if (c.y == DataType::U8 || c.y == DataType::I8) zero = random_bytes(c.y, {}, random);
    inputs.push_back(bias), inputs.push_back(scale), inputs.push_back(zero);
    return inputs;
}

}  // namespace
}  // namespace refactor::kernel::test
