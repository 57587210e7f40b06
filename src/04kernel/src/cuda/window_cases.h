#pragma once
#include "cuda/rows_cases.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/quantize.h"
#include "kernel/ops/vision.h"

namespace refactor::kernel::testing::rows {

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
            if (!global) {
                IntegerPoolInfo padded{PoolKind::Average, info.kernel, info.window, 0.75f, 3, 2, true};
                run(padded, {numbers(type, {2, 6, 5, 7}, random)}, {Tensor(y, {2, 3, 5, 7})});
            }
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
            if (random() % 2) continue;
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
            // NaN may have another payload: all else is equal in every bit.
            run(DequantizeInfo{granularity}, {codes, scale, floating || random() % 2 ? none : zero},
                {Tensor(wide, dims)}, {}, 0x1p-100);
        }
    run(DequantizeInfo{}, {numbers(I32, {41}, random), scales(F32, {}, random), Tensor(Undefined, {})},
        {Tensor(F32, {41})});
    run(DequantizeInfo{{0, 4}}, {Tensor(F4E2M1, {8}).fill(random), scales(F8E8M0, {2}, random), Tensor(Undefined, {})},
        {Tensor(F32, {8})});
}

template <class Run>
void convert_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    DataType const types[]{F32, F64,  F16,      BF16,   I8,         U8,     I16,    U16, I32, U32, I64,
                           U64, Bool, F8E4M3FN, F8E5M2, F8E5M2FNUZ, F4E2M1, F8E8M0, I4,  U4,  I2,  U2};
    for (int round = 0; round < 40; ++round) {
        auto from = types[random() % std::size(types)], to = types[round % std::size(types)];
        auto wide = numbers(F32, {53}, random, 100);
        Tensor x(from, {53});
        convert(F32, wide.data(), from, x.data(), 53);
        if (from == I64 || from == U64 || from == F8E5M2 || from == F4E2M1 || from == F16) x.fill(random);
        if (from == F64)
            for (int64_t i = 0; i < 53; ++i) x.as<double>()[i] *= 1.0000001;
        // NaN may have another payload.
        auto tolerance = to == F32 || to == F64 || to == F16 || to == BF16 ? 0x1p-100 : 0;
        run(ConvertInfo{(random() & 1) != 0, false, static_cast<ScaleRounding>(random() % 3)}, {x}, {Tensor(to, {53})},
            {}, tolerance);
    }
    for (auto [from, to] : {std::pair{F32, I32}, {F8E4M3FN, U8}, {I4, U4}, {F64, U64}})
        run(ConvertInfo{true, true}, {Tensor(from, {53}).fill(random)}, {Tensor(to, {53})});
}

}  // namespace refactor::kernel::testing::rows
