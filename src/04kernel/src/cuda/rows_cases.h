#pragma once
#include "cuda/device_test.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/quantize.h"
#include "kernel/ops/recurrent.h"
#include "kernel/ops/reduce.h"
#include "kernel/ops/vision.h"

/// Cases of the kernels that combine many elements. `run(info, inputs, outputs, params, tolerance)` compares with the
/// reference, or collects sources.
namespace refactor::kernel::testing {

/// Standard normal numbers; integers from -100 (0) to 100.
inline Tensor numbers(DataType type, Dims dims, std::mt19937& random, double scale = 1) {
    Tensor t(type, std::move(dims));
    if (type == DataType::Bool) {
        for (int64_t i = 0; i < t.count(); ++i) t.as<bool>()[i] = random() & 1;
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
        for (auto const& [dims, axes] : shapes) {
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
        for (bool smallest : {false, true})
            for (bool last : {false, true})
                for (auto const& [dims, axis] : {std::pair{Dims{5, 33}, 1},
                                                 {Dims{6, 4, 8}, 1},
                                                 {Dims{3, 1}, 1},
                                                 {Dims{1, 9000}, 1},
                                                 {Dims{3000, 4}, 0}}) {
                    Tensor x = numbers(type, dims, random);
                    // Ties.
                    if (type == DataType::F32)
                        for (int64_t i = 0; i < x.count(); ++i)
                            x.as<float>()[i] = std::round(x.as<float>()[i]);
                    if (type == DataType::F32 && x.count() > 40)
                        x.as<float>()[5] = x.as<float>()[9] = NAN;
                    run(ArgReduceInfo{smallest, last, axis}, {x}, {Tensor(DataType::I64, without(dims, {axis}))});
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
    auto tolerance = [](DataType type) { return 2 * unit_of(type) + (type == DataType::F64 ? 0 : 64 * 0x1p-23); };
    for (auto const& dims : {Dims{5, 7}, Dims{3, 64}, Dims{2, 1000}, Dims{300, 256}, Dims{2, 3, 40}, Dims{1, 20000},
                             Dims{2, 9001}, Dims{0, 4}})
        for (bool rms : {false, true})
            for (int form = 0; form < 4; ++form) {
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
            for (auto type : kFloats)
                run(GroupNormInfo{groups, 1e-3f},
                    {numbers(type, dims, random), numbers(type, {dims[1]}, random), numbers(type, {dims[1]}, random)},
                    {Tensor(type, dims)}, {}, 4 * tolerance(type));
}

inline Window window(int64_t axes, std::mt19937& random, Dims const& kernel) {
    Window w;
    for (int64_t i = 0; i < axes; ++i) {
        w.strides.push_back(pick(random, 1, 3)), w.dilations.push_back(pick(random, 1, 2));
        w.pads_begin.push_back(pick(random, 0, kernel[static_cast<size_t>(i)] - 1));
        w.pads_end.push_back(pick(random, 0, kernel[static_cast<size_t>(i)] - 1));
    }
    return w;
}

template <class Run>
void pool_cases(std::mt19937& random, Run&& run) {
    for (int round = 0; round < 24; ++round) {
        auto axes = pick(random, 1, 3);
        PoolInfo info;
        info.kind = static_cast<PoolKind>(round % 3);
        for (int64_t i = 0; i < axes; ++i) info.kernel.push_back(pick(random, 1, 3));
        info.window = window(axes, random, info.kernel);
        info.count_include_pad = round % 2, info.column_major = round % 4 == 0;
        Dims x{2, 3}, y{2, 3};
        bool ceil = random() & 1;
        for (size_t i = 0; i < static_cast<size_t>(axes); ++i) {
            auto const& w = info.window;
            x.push_back(pick(random, 6, 11));
            auto room = x[i + 2] + w.pads_begin[i] + w.pads_end[i] - (info.kernel[i] - 1) * w.dilations[i] - 1;
            auto count = room / w.strides[i] + 1;
            // A further window must begin inside of the input.
            if (ceil && room % w.strides[i] && count * w.strides[i] < x[i + 2] + w.pads_begin[i]) ++count;
            y.push_back(count);
        }
        bool max = info.kind == PoolKind::Max;
        auto type = max && round % 2 ? DataType::I8 : kFloats[random() % 4];
        std::vector<Tensor> outputs{Tensor(type, y)};
        if (max) outputs.push_back(Tensor(DataType::I64, y));
        run(info, {numbers(type, x, random)}, outputs, {}, max ? 0 : sum_tolerance(type, 27));
    }
    for (auto kind : {PoolKind::Max, PoolKind::Average})
        for (auto type : kFloats)
            run(GlobalPoolInfo{kind}, {numbers(type, {2, 5, 7, 9}, random)}, {Tensor(type, {2, 5, 1, 1})}, {},
                sum_tolerance(type, 63));
    for (auto type : {DataType::U8, DataType::I8})
        for (bool global : {false, true}) {
            IntegerPoolInfo info{global ? PoolKind::Average : PoolKind::Max};
            auto y = type;
            if (global)
                info.scale = 0.75f, info.x_zero = 3, info.y_zero = 2;
            else
                info.kernel = {2, 3}, info.window = {{2, 1}, {1, 1}, {0, 1}, {0, 1}};
            run(info, {numbers(type, {2, 6, 5, 7}, random)}, {Tensor(y, global ? Dims{2, 1, 1, 7} : Dims{2, 3, 5, 7})});
        }
    for (auto type : kFloats)
        run(LrnInfo{5, 0.01f, 0.6f, 1.5f}, {numbers(type, {2, 7, 3, 5}, random)}, {Tensor(type, {2, 7, 3, 5})}, {},
            unit_of(type) + 32 * 0x1p-23);
    for (auto type : {DataType::F32, DataType::F16, DataType::F64}) {
        auto positions = indices(DataType::I64, {1, 2, 4, 3}, 0, 59, random);
        run(MaxUnpoolInfo{}, {numbers(type, {1, 2, 4, 3}, random), positions}, {Tensor(type, {1, 2, 5, 6})},
            {1, 2, 5, 6});
        run(MaxUnpoolInfo{}, {numbers(type, {1, 2, 4, 3}, random), positions}, {Tensor(type, {1, 3, 7, 6})},
            {1, 2, 5, 6});
    }
}

/// A scale that is positive in any type.
inline Tensor scales(DataType type, Dims dims, std::mt19937& random) {
    Tensor values(DataType::F32, dims), result(type, dims);
    for (int64_t i = 0; i < values.count(); ++i) values.as<float>()[i] = std::ldexp(1.f + 0.25f * (random() % 4), -5);
    convert(DataType::F32, values.data(), type, result.data(), values.count());
    return result;
}

template <class Run>
void quantize_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    struct Case {
        Dims dims, scale;
        Granularity granularity;
    };
    Case const shapes[] = {{{37}, {}, {}},
                           {{3, 5, 8}, {5}, {1, 0}},
                           {{4, 7}, {7}, {1, 0}},
                           {{3, 20}, {3, 3}, {1, 8}},
                           {{6, 5}, {3, 5}, {0, 2}}};
    for (auto type : {I8, U8, I16, U16, I4, U4, I2, U2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F4E2M1})
        for (auto const& [dims, scale_dims, granularity] : shapes) {
            DataType const floats[]{F32, F16, BF16};
            auto wide = floats[random() % 3];
            auto scale = scales(random() % 2 ? wide : F32, scale_dims, random);
            Tensor zero(type, scale_dims), q(type, dims), none(Undefined, {});
            auto values = numbers(F32, scale_dims, random, 2);
            bool floating = is_float(type);
            convert(F32, values.data(), type, zero.data(), zero.count());
            QuantizeInfo info{granularity, random() % 2 ? wide : F32, (random() & 1) != 0};
            Tensor x = numbers(wide, dims, random, 2);
            run(info, {x, scale, random() % 2 ? none : zero}, {q});
            auto codes = q;
            codes.fill(random);
            run(DequantizeInfo{granularity}, {codes, scale, floating || random() % 2 ? none : zero},
                {Tensor(wide, dims)});
        }
    run(DequantizeInfo{}, {numbers(I32, {41}, random), scales(F32, {}, random), Tensor(Undefined, {})},
        {Tensor(F32, {41})});
    run(DequantizeInfo{{0, 4}}, {Tensor(F4E2M1, {8}).fill(random), scales(F8E8M0, {2}, random), Tensor(Undefined, {})},
        {Tensor(F32, {8})});
}

template <class Run>
void recurrent_cases(std::mt19937& random, Run&& run) {
    struct Size {
        int64_t steps, batch, inputs, hidden;
    };
    for (int round = 0; round < 30; ++round) {
        RecurrentInfo info;
        info.cell = static_cast<RecurrentCell>(round % 3);
        bool big = round % 5 == 4;
        // 300 units of f32 are more than a block computes alone.
        Size n{pick(random, 1, 4), pick(random, 1, 6), pick(random, 1, 9), big ? 300 : pick(random, 1, 24)};
        if (big) n.steps = 2, n.batch = 2;
        if (round == 1) n.hidden = 32;
        info.hidden = n.hidden;
        auto flag = [&] { return (random() & 1) != 0; };
        info.bidirectional = flag(), info.reverse = !info.bidirectional && flag(), info.batch_first = flag();
        info.linear_before_reset = flag(), info.input_forget = round % 7 == 2, info.bias = flag(),
        info.lengths = flag();
        info.initial_h = flag(), info.initial_c = info.cell == RecurrentCell::Lstm && flag();
        info.peepholes = info.cell == RecurrentCell::Lstm && flag();
        info.y = flag(), info.y_h = !info.y || flag(), info.y_c = info.cell == RecurrentCell::Lstm && flag();
        info.clip = round % 4 == 0 ? 0.75f : 0;
        int64_t directions = info.bidirectional ? 2 : 1, gates = gates_of(info.cell);
        int functions = info.cell == RecurrentCell::Lstm ? 3 : info.cell == RecurrentCell::Gru ? 2 : 1;
        for (int64_t i = 0; i < directions * functions; ++i)
            info.activations.push_back(round % 2 ? CellActivation{static_cast<CellFunction>(random() % 11), 0.5f, 0.75f}
                                                 : CellActivation{static_cast<CellFunction>(i % functions != 0)});
        DataType const types[]{DataType::F32, DataType::F64, DataType::F16, DataType::F32};
        auto type = types[random() % 4];
        auto weight = 0.5 / std::sqrt(static_cast<double>(n.hidden));
        auto G = gates * n.hidden;
        Dims state = info.batch_first ? Dims{n.batch, directions, n.hidden} : Dims{directions, n.batch, n.hidden};
        std::vector<Tensor> inputs{
            numbers(type, info.batch_first ? Dims{n.batch, n.steps, n.inputs} : Dims{n.steps, n.batch, n.inputs},
                    random),
            numbers(type, {directions, G, n.inputs}, random, 0.3),
            numbers(type, {directions, G, n.hidden}, random, weight)};
        if (info.bias) inputs.push_back(numbers(type, {directions, 2 * G}, random));
        if (info.lengths) inputs.push_back(indices(DataType::I32, {n.batch}, 0, n.steps, random));
        if (info.initial_h) inputs.push_back(numbers(type, state, random));
        if (info.initial_c) inputs.push_back(numbers(type, state, random));
        if (info.peepholes) inputs.push_back(numbers(type, {directions, 3 * n.hidden}, random));
        std::vector<Tensor> outputs;
        if (info.y)
            outputs.emplace_back(type, info.batch_first ? Dims{n.batch, n.steps, directions, n.hidden}
                                                        : Dims{n.steps, directions, n.batch, n.hidden});
        if (info.y_h) outputs.emplace_back(type, state);
        if (info.y_c) outputs.emplace_back(type, state);
        // Gates are sums of up to 4 in size, the products of inputs rounded to the type; four steps feed errors back,
        // which an activation without a bound (slope 1 at most) does not enlarge by more than 4.
        run(info, inputs, outputs, {}, 64 * unit_of(type));
    }
}

}  // namespace refactor::kernel::testing
