#pragma once
#include "cuda/movement_cases.h"

/// Cases of kernels of classical models.
namespace refactor::kernel::testing {

/// A few roundings of `type`, on sums of `terms` numbers.
inline double rounding_of(DataType type, double terms = 1) {
    if (!is_float(type)) return 0;
    if (type == DataType::F16) return 0x1p-10;
    if (type == DataType::BF16) return 0x1p-7;
    return terms * (type == DataType::F64 ? 0x1p-50 : 0x1p-21);
}

template <class Run>
void lookup_cases(std::mt19937& random, Run&& run) {
    auto cases = [&](auto number, DataType type) {
        using T = decltype(number);
        std::vector<T> keys{T(-7), T(-1), T(0), T(3), T(5), T(9)};
        std::vector<uint64_t> codes;
        for (auto key : keys) codes.push_back(lookup_code(key));
        std::sort(codes.begin(), codes.end());
        Tensor x = numbers(type, {5, 60}, random, 1);
        if constexpr (std::is_floating_point_v<T>)
            for (int64_t i = 0; i < x.count(); ++i) x.as<T>()[i] = std::round(x.as<T>()[i] * 4);
        run(LookupInfo{},
            {x, Tensor(DataType::U64, {6}).set(codes), bytes(DataType::F32, {6}, random),
             bytes(DataType::F32, {1}, random)},
            {Tensor(DataType::F32, {5, 60})});
    };
    cases(float{}, DataType::F32), cases(double{}, DataType::F64), cases(int16_t{}, DataType::I16);
    cases(int32_t{}, DataType::I32), cases(int64_t{}, DataType::I64);
}

/// One leaf for all rows: tests/test_cuda_tables.py has real trees.
template <class Run>
void table_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    run(SquaredDistanceInfo{}, {numbers(F32, {19, 21}, random), numbers(F32, {33, 21}, random)},
        {Tensor(F32, {19, 33})}, {}, rounding_of(F32, 24));
    for (bool classify : {false, true}) {
        TreeEnsembleInfo info;
        info.classify = classify, info.transform = PostTransform::Logistic, info.base_values = 1;
        std::vector<Tensor> inputs{numbers(F32, {7, 3}, random), Tensor(U32, {1, 4}).set<uint32_t>({0, 0, 0, 0})};
        inputs.push_back(Tensor(I32, {1}).set<int32_t>({2})), inputs.push_back(Tensor(U32, {1}).set<uint32_t>({0}));
        inputs.push_back(Tensor(U32, {2}).set<uint32_t>({0, 1})), inputs.push_back(numbers(F32, {1}, random));
        inputs.push_back(Tensor(U32, {1}).set<uint32_t>({0})), inputs.push_back(numbers(F32, {1}, random));
        inputs.push_back(Tensor(I64, {1}).set<int64_t>({4}));
        std::vector<Tensor> outputs{Tensor(F32, {7, 1})};
        if (classify) outputs.push_back(Tensor(I64, {7}));
        run(info, inputs, outputs, {}, 0x1p-20);
    }
    SvmVotesInfo votes{{2, 1, 3}, PostTransform::Softmax, true};
    std::vector<Tensor> inputs{numbers(F32, {9, 6}, random), numbers(F32, {2, 6}, random), numbers(F32, {3}, random),
                               Tensor(I64, {3}).set<int64_t>({5, 6, 7})};
    inputs.push_back(numbers(F32, {3}, random)), inputs.push_back(numbers(F32, {3}, random));
    // Coupling ends when it has converged to 0.005.
    run(votes, inputs, {Tensor(F32, {9, 3}), Tensor(I64, {9})}, {}, 0.005);
}

}  // namespace refactor::kernel::testing
