#pragma once
#include "cuda/device_test.h"
#include "kernel/ops/reduce.h"

/// Cases of the kernels that combine many elements. `run(info, inputs, outputs, params, tolerance)` compares with the
/// reference, or collects sources.
namespace refactor::kernel::testing::rows {

/// Standard normal numbers; integers from -100 (0) to 100.
inline Tensor numbers(DataType type, Dims dims, std::mt19937& random, double scale = 1) {
    Tensor t(type, std::move(dims));
    if (type == DataType::Bool) {
        for (int64_t i = 0; i < t.count(); ++i) t.as<uint8_t>()[i] = random() & 1;
        return t;
    }
    std::normal_distribution<double> normal(0, scale);
    visit_numeric(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (int64_t i = 0; i < t.count(); ++i)
            if constexpr (std::is_integral_v<T>)
                t.as<T>()[i] = static_cast<T>(pick(random, std::is_signed_v<T> ? -100 : 0, 100));
            else
                t.as<T>()[i] = narrow<T>(normal(random));
    });
    return t;
}
inline double unit_of(DataType type) {
    return type == DataType::F64    ? 0x1p-52
           : type == DataType::F16  ? 0x1p-10
           : type == DataType::BF16 ? 0x1p-7
                                    : 0x1p-23;
}
/// Sums of `n` standard normal numbers stay below 4 sqrt(n); each of at most 32 additions on the way of an element
/// rounds by half a unit of f32 (f64). The result is rounded once to its type.
inline double sum_tolerance(DataType type, int64_t n) {
    if (!is_float(type)) return 0;
    auto inner = type == DataType::F64 ? 0x1p-52 : 0x1p-23;
    return unit_of(type) + 64 * inner * std::sqrt(static_cast<double>(n));
}
inline constexpr DataType kFloats[] = {DataType::F32, DataType::F16, DataType::BF16, DataType::F64};

inline Dims without(Dims const& dims, Dims const& axes) {
    Dims left;
    for (size_t i = 0; i < dims.size(); ++i)
        if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end()) left.push_back(dims[i]);
    return left;
}

template <class Run>
void reduce_cases(std::mt19937& random, Run&& run) {
    struct Case {
        Dims dims, axes;
    };
    Case const shapes[] = {{{5, 7}, {1}},
                           {{5, 8}, {0}},
                           {{3, 5, 32}, {0, 2}},
                           {{2, 3, 4, 5}, {1, 2}},
                           {{}, {}},
                           {{1, 1}, {0}},
                           {{3, 0}, {1}},
                           {{0, 3}, {1}},
                           {{2, 4100}, {1}},
                           {{4100, 3}, {0}},
                           {{2, 600, 8}, {1}},
                           {{40, 300}, {1}},
                           {{3, 1, 33}, {1}},
                           {{2, 2, 2, 2, 2}, {0, 2, 4}},
                           {{1, 70000}, {1}}};
    for (auto kind = 0; kind <= static_cast<int>(ReduceKind::LogSumExp); ++kind)
        for (size_t i = 0; i < std::size(shapes); ++i) {
            auto const& [dims, axes] = shapes[i];
            // All shapes for two kinds of accumulators, some for the others.
            bool every = kind == static_cast<int>(ReduceKind::Mean) || kind == static_cast<int>(ReduceKind::LogSumExp);
            if (!every && random() % 4) continue;
            bool product = kind == static_cast<int>(ReduceKind::Prod);
            auto n = element_count(dims) / std::max<int64_t>(1, element_count(without(dims, axes)));
            if (product && n > 100) continue;
            auto type = kFloats[random() % 2 ? 0 : random() % 4];
            ReduceInfo info{static_cast<ReduceKind>(kind), axes};
            // Of f16, sums of many squares would be infinite.
            if (type == DataType::F16 && n > 1000) type = DataType::F32;
            run(info, {numbers(type, dims, random)}, {Tensor(type, without(dims, axes))}, {},
                sum_tolerance(type, n) * (product ? 8 : 1));
        }
    for (auto type : {DataType::I8, DataType::U8, DataType::I32, DataType::U32, DataType::I64, DataType::U64})
        for (auto kind : {ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Min, ReduceKind::L1,
                          ReduceKind::SumSquare, ReduceKind::LogSumExp}) {
            Tensor x = numbers(type, {3, 5, 6}, random);
            run(ReduceInfo{kind, {1}}, {x}, {Tensor(type, {3, 6})});
            run(ReduceInfo{kind, {2}}, {x}, {Tensor(type, {3, 5})});
        }
    run(ReduceInfo{ReduceKind::Max, {1}}, {numbers(DataType::Bool, {4, 17}, random)}, {Tensor(DataType::Bool, {4})});
    auto special = numbers(DataType::F32, {4, 9}, random);
    special.as<float>()[3] = NAN, special.as<float>()[12] = INFINITY, special.as<float>()[20] = -INFINITY;
    for (auto kind : {ReduceKind::Max, ReduceKind::Min, ReduceKind::LogSumExp, ReduceKind::Sum})
        run(ReduceInfo{kind, {1}}, {special}, {Tensor(DataType::F32, {4})}, {}, 1e-5);
}

template <class Run>
void arg_reduce_cases(std::mt19937& random, Run&& run) {
    for (auto type : {DataType::F32, DataType::F16, DataType::F64, DataType::I32, DataType::U8})
        for (auto const& [dims, axis] :
             {std::pair{Dims{5, 33}, 1}, {Dims{6, 4, 8}, 1}, {Dims{3, 1}, 1}, {Dims{1, 9000}, 1}, {Dims{3000, 4}, 0}}) {
            Tensor x = numbers(type, dims, random);
            // Ties.
            if (type == DataType::F32)
                for (int64_t i = 0; i < x.count(); ++i) x.as<float>()[i] = std::round(x.as<float>()[i]);
            if (type == DataType::F32 && x.count() > 40) x.as<float>()[5] = x.as<float>()[9] = NAN;
            run(ArgReduceInfo{(random() & 1) != 0, (random() & 1) != 0, axis}, {x},
                {Tensor(DataType::I64, without(dims, {axis}))});
        }
}

template <class Run>
void softmax_cases(std::mt19937& random, Run&& run) {
    struct Case {
        Dims dims;
        int64_t axis, axes;
    };
    Case const shapes[] = {{{5, 7}, 1, 1},     {{3, 64}, 1, 1},    {{2, 1000}, 1, 1}, {{300, 260}, 1, 1},
                           {{2, 3, 5}, 1, 1},  {{4, 40, 9}, 0, 1}, {{2, 3, 4}, 1, 2}, {{1, 17000}, 1, 1},
                           {{2, 33001}, 1, 1}, {{3, 1}, 1, 1},     {{0, 3}, 1, 1},    {{2, 500, 3}, 1, 1},
                           {{1, 4096}, 1, 1}};
    for (auto const& c : shapes)
        for (bool log : {false, true}) {
            auto type = kFloats[random() % 2 ? 0 : random() % 4];
            SoftmaxInfo info{c.axis, c.axes, log, false};
            // exp and its argument are within a few units of f32; logarithms reach 12.
            auto tolerance = unit_of(type) * (log ? 2 : 1) + 32 * 0x1p-23;
            run(info, {numbers(type, c.dims, random, 3)}, {Tensor(type, c.dims)}, {}, tolerance);
        }
    for (bool zero : {false, true})
        for (auto dims : {Dims{3, 6}, Dims{3, 6, 2}}) {
            Tensor x = numbers(DataType::F32, dims, random);
            auto row = dims.size() == 2 ? 6 : 12;
            for (int64_t i = 0; i < row; ++i) x.as<float>()[row + i] = -INFINITY;
            x.as<float>()[2] = -INFINITY, x.as<float>()[2 * row] = NAN;
            run(SoftmaxInfo{1, 1, false, zero}, {x}, {Tensor(DataType::F32, dims)}, {}, 1e-6);
        }
}

template <class Run>
void normalize_cases(std::mt19937& random, Run&& run) {
    auto tolerance = [](DataType type) { return 2 * unit_of(type) + 64 * (type == DataType::F64 ? 0x1p-52 : 0x1p-23); };
    for (auto const& dims : {Dims{5, 7}, Dims{3, 64}, Dims{2, 1000}, Dims{300, 256}, Dims{2, 3, 40}, Dims{1, 20000},
                             Dims{2, 9001}, Dims{0, 4}})
        for (bool rms : {false, true})
            for (int form : {static_cast<int>(random() % 2), 2 + static_cast<int>(random() % 2)}) {
                auto type = kFloats[random() % 2 ? 0 : random() % 4];
                LayerNormInfo info{static_cast<int64_t>(dims.size()) - 1, 1e-3f, rms, (form & 1) != 0, (form & 2) != 0};
                Dims channels{form == 3 ? 1 : dims.back()};
                std::vector<Tensor> inputs{numbers(type, dims, random), numbers(type, channels, random)};
                if (info.has_bias) inputs.push_back(numbers(type, {dims.back()}, random));
                if (info.residual) inputs.push_back(numbers(type, dims, random));
                std::vector<Tensor> outputs{Tensor(type, dims)};
                if (info.residual) outputs.push_back(Tensor(type, dims));
                run(info, inputs, outputs, {}, 4 * tolerance(type));
            }
    for (auto const& dims : {Dims{2, 6, 5}, Dims{1, 4, 9, 8}, Dims{3, 6, 1}, Dims{1, 2, 90, 100}, Dims{2, 4, 40, 64}})
        for (int64_t groups : {0, 2})
            for (auto type : {DataType::F32, kFloats[random() % 4]})
                run(GroupNormInfo{groups, 1e-3f},
                    {numbers(type, dims, random), numbers(type, {dims[1]}, random), numbers(type, {dims[1]}, random)},
                    {Tensor(type, dims)}, {}, 4 * tolerance(type));
}

}  // namespace refactor::kernel::testing::rows
