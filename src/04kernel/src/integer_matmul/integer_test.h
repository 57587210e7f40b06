#pragma once
#include "kernel/ops/integer.h"
#include "reduce/kernel_test.h"

// What tests of integer products and convolutions share.

namespace refactor::kernel::test {
namespace {

/// Products may be fused with the additions behind them: 2 eps of addends up to 512, or of the result where a product
/// is larger (other addends are not, so that nothing of it cancels).
constexpr Tolerance kFused{512 * 2 * 6e-8, 2 * 6e-8};

inline Tensor random_bytes(DataType dtype, Dims dims, std::mt19937& random) {
    Tensor t(dtype, dims);
    for (int64_t i = 0; i < t.desc.count(); ++i) t.as<uint8_t>()[i] = static_cast<uint8_t>(random());
    return t;
}

/// Signed bytes of which few neighbours (`step` apart) sum to more than 128: products of bytes with saturating sums are
/// then used.
inline Tensor random_small_bytes(Dims dims, int64_t step, std::mt19937& random) {
    Tensor t(DataType::I8, dims);
    for (int64_t i = 0; i < t.desc.count(); ++i) {
        auto small = static_cast<int8_t>(static_cast<int>(random() % 65) - 32);
        constexpr int8_t kLargest[]{-128, -127, 127, 126};
        // Two in a row: one alone makes no sum too large.
        if (auto which = random() % 1200; which < 4 && i >= step)
            t.as<int8_t>()[i - step] = t.as<int8_t>()[i] = kLargest[which];
        else
            t.as<int8_t>()[i] = small;
    }
    return t;
}

/// How many candidates multiply bytes with saturating sums.
template <class Info>
int saturating_candidates(Info const& info, std::vector<Tensor> const& inputs, Tensor const& output) {
    auto in = operands_of(inputs), results = operands_of({output});
    int count = 0;
    for (auto const& kernel :
         candidates(info, request_of(in, results, std::min(Isa::Avx2, cpu_features().isa), 1)).kernels)
        count += kernel->id().find(":bytes:") != std::string::npos;
    return count;
}

/// One combination of types and optional operands.
struct IntegerCase {
    DataType a, b, y;
    bool bias, relu, constant;
    bool rounded = false, clipped = false, shift = false;
    DataType residual = DataType::Undefined;
    bool sloped = false;

    /// Bounds and scales are of the size of results.
    IntegerResult result() const {
        IntegerResult r{relu};
        bool bytes = y == DataType::U8 || y == DataType::I8;
        if (rounded) r.rounded = true, r.middle_low = -90, r.middle_high = 70, r.middle_scale = 0.7312347f;
        if (residual != DataType::Undefined) r.residual_scale = bytes ? 0.4123459f : 0.002f, r.residual_zero = 11;
        if (sloped) r.slope = 0.2f;
        if (clipped) r.low = bytes ? -50 : -0.7f, r.high = bytes ? 110 : 0.9f;
        return r;
    }
};

/// Every sign of both operands with every output; the rest varies along. Then what tiles store in one go.
inline std::vector<IntegerCase> integer_cases() {
    std::vector<IntegerCase> cases;
    int i = 0;
    for (auto a : {DataType::U8, DataType::I8})
        for (auto b : {DataType::U8, DataType::I8})
            for (auto y : {DataType::I32, DataType::F32, DataType::U8, DataType::I8}) {
                cases.push_back({a, b, y, i % 3 != 0, y != DataType::I32 && i % 5 < 2, i % 7 < 4});
                if (y != DataType::I32) {
                    auto& c = cases.back();
                    c.rounded = i % 3 == 1, c.clipped = i % 5 >= 3, c.shift = i % 2 == 0;
                    constexpr DataType kResiduals[]{DataType::Undefined, DataType::U8, DataType::F32, DataType::I8};
                    c.residual = kResiduals[i / 2 % 4];
                    c.sloped = i % 11 == 3;
                }
                ++i;
            }
    for (auto y : {DataType::U8, DataType::I8})
        for (auto residual : {DataType::Undefined, DataType::U8, DataType::I8, DataType::F32})
            cases.push_back(
                {DataType::I8, DataType::I8, y, true, y == DataType::U8, true, false, false, true, residual});
    cases.push_back({DataType::U8, DataType::I8, DataType::F32, false, true, true, false, false, true, DataType::F32});
    for (auto y : {DataType::U8, DataType::I8, DataType::F32})
        for (bool shift : {false, true})
            cases.push_back({DataType::U8, DataType::I8, y, true, false, true, false, y == DataType::F32, shift,
                             DataType::Undefined, true});
    cases.push_back(
        {DataType::U8, DataType::I8, DataType::F32, true, false, true, false, true, true, DataType::F32, true});
    cases.push_back(
        {DataType::I8, DataType::I8, DataType::I8, true, false, true, false, false, true, DataType::U8, true});
    cases.push_back(
        {DataType::I8, DataType::I8, DataType::U8, true, false, true, true, false, true, DataType::Undefined, true});
    cases.push_back({DataType::U8, DataType::I8, DataType::F32, true, false, true, true, true, false, DataType::I8});
    for (auto y : {DataType::U8, DataType::I8})
        for (auto residual : {DataType::Undefined, DataType::U8, DataType::I8})
            cases.push_back(
                {DataType::U8, DataType::I8, y, true, y == DataType::I8, true, true, false, false, residual});
    return cases;
}

/// The operands behind A and B for a result of sizes `y`: `a_zeros` and `b_zeros` of those sizes (empty: one), biases
/// and scales for `n` columns.
inline std::vector<Tensor> with_operands(IntegerCase const& c, Tensor a, Tensor b, Dims const& a_zeros,
                                         Dims const& b_zeros, int64_t n, int64_t k, bool many_scales, Dims const& y,
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
    inputs.push_back(c.shift ? random_f32({n}, random, c.y == DataType::F32 ? 0.3f : 30) : Tensor());
    inputs.push_back(c.residual == DataType::Undefined ? Tensor()
                     : c.residual == DataType::F32     ? random_f32(y, random, 100)
                                                       : random_bytes(c.residual, y, random));
    return inputs;
}

}  // namespace
}  // namespace refactor::kernel::test
