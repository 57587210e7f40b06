#pragma once
#include "cuda/movement_kernels.h"
#include "movement/movement_test.h"
#include "reduce/scalar_type.h"

/// The tensors of cases for generated kernels, and the cases of Scatter.
namespace refactor::kernel::testing {

inline Tensor numbers(DataType type, Dims dims, std::mt19937& random, double scale = 3) {
    Tensor t(type, dims);
    std::normal_distribution<double> normal(0, scale);
    visit_numeric(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < t.count(); ++i) {
            auto x = normal(random);
            if constexpr (std::is_unsigned_v<T>) x = std::abs(x) * 5;
            if constexpr (std::is_integral_v<T>)
                t.as<T>()[i] = static_cast<T>(x * 5);
            else
                t.as<T>()[i] = narrow<T>(x);
        }
    });
    return t;
}

inline Tensor bytes(DataType type, Dims dims, std::mt19937& random) { return Tensor(type, dims).fill(random); }

/// Different indices, so that every reduction and order gives the same.
template <class Run>
void scatter_cases(std::mt19937& random, Run&& run) {
    auto shuffled = [&](DataType type, Dims dims, int64_t most) {
        Tensor t(type, dims);
        std::vector<int64_t> all(most);
        for (int64_t i = 0; i < most; ++i) all[i] = i % 2 ? i : i - most;
        std::shuffle(all.begin(), all.end(), random);
        for (int64_t i = 0; i < t.count(); ++i) {
            if (type == DataType::I32)
                t.as<int32_t>()[i] = static_cast<int32_t>(all[i]);
            else
                t.as<int64_t>()[i] = all[i];
        }
        return t;
    };
    for (auto index : {DataType::I32, DataType::I64})
        for (auto type : kWidths) {
            run(ScatterInfo{0}, {bytes(type, {9, 1}, random), shuffled(index, {5, 1}, 9), bytes(type, {5, 1}, random)},
                {Tensor(type, {9, 1})});
            run(ScatterInfo{}, {bytes(type, {6, 4}, random), shuffled(index, {3, 1}, 6), bytes(type, {3, 4}, random)},
                {Tensor(type, {6, 4})});
        }
    using enum DataType;
    int number = 0;
    for (auto type : {F32, F64, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64})
        for (int reduction = 1; reduction < 5; ++reduction, ++number) {
            auto kind = static_cast<ScatterReduction>(reduction);
            auto index = number % 2 ? I32 : I64;
            if (number % 3)
                run(ScatterInfo{0, kind},
                    {numbers(type, {9, 1}, random), shuffled(index, {5, 1}, 9), numbers(type, {5, 1}, random)},
                    {Tensor(type, {9, 1})});
            else
                run(ScatterInfo{-1, kind},
                    {numbers(type, {6, 3}, random), shuffled(index, {3, 1}, 6), numbers(type, {3, 3}, random)},
                    {Tensor(type, {6, 3})});
        }
}

/// Several updates of one element: exact for integers.
template <class Run>
void collision_cases(std::mt19937& random, Run&& run) {
    for (auto type : {DataType::I8, DataType::U16, DataType::I32, DataType::U64})
        for (int reduction = 1; reduction < 5; ++reduction)
            run(ScatterInfo{1, static_cast<ScatterReduction>(reduction)},
                {numbers(type, {3, 4, 5}, random), indices(DataType::I64, {2, 30, 5}, -4, 3, random),
                 numbers(type, {2, 30, 5}, random)},
                {Tensor(type, {3, 4, 5})});
    run(ScatterInfo{0, ScatterReduction::Add},
        {numbers(DataType::F32, {7}, random), indices(DataType::I64, {300}, -7, 6, random),
         numbers(DataType::F32, {300}, random)},
        {Tensor(DataType::F32, {7})}, {}, 300 * 3 * 6e-8);
}

}  // namespace refactor::kernel::testing
