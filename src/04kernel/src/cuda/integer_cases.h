#pragma once
#include "cuda/window_cases.h"

namespace refactor::kernel::testing::rows {

/// What follows A and B (X and W): zero points of these sizes, and operands and steps that only a scaled result has.
inline std::vector<Tensor> integer_operands(DataType a, DataType b, DataType y, Dims const& a_zeros,
                                            Dims const& b_zeros, int64_t columns, int64_t depth, Dims const& y_dims,
                                            std::mt19937& random) {
    Tensor none(DataType::Undefined, {});
    auto flag = [&] { return (random() & 1) != 0; };
    bool scaled = y != DataType::I32, bytes = scaled && y != DataType::F32;
    std::vector<Tensor> inputs{flag() ? none : Tensor(a, a_zeros).fill(random),
                               flag() ? none : Tensor(b, b_zeros).fill(random),
                               flag() ? none : indices(DataType::I32, {columns}, -9000, 9000, random)};
    Tensor scale(DataType::F32, {flag() ? columns : 1});
    // Sums are of size 5000 sqrt(depth): most results lie within a byte.
    for (int64_t i = 0; i < scale.count(); ++i)
        scale.as<float>()[i] = (0.005f + 0.001f * (random() % 16)) / std::sqrt(static_cast<float>(depth + 1));
    inputs.push_back(scaled ? scale : none);
    inputs.push_back(bytes && flag() ? Tensor(y, {}).fill(random) : none);
    inputs.push_back(scaled && flag() ? numbers(DataType::F32, {columns}, random, 5) : none);
    DataType const residuals[]{DataType::Undefined, DataType::U8, DataType::I8, DataType::F32};
    auto residual = scaled ? residuals[random() % 4] : DataType::Undefined;
    inputs.push_back(residual == DataType::Undefined ? none
                     : residual == DataType::F32     ? numbers(residual, y_dims, random, 20)
                                                     : Tensor(residual, y_dims).fill(random));
    return inputs;
}
inline IntegerResult integer_result(DataType y, std::mt19937& random) {
    IntegerResult r;
    if (y == DataType::I32) return r;
    r.relu = random() & 1, r.rounded = random() & 1;
    if (r.rounded) r.middle_low = -90, r.middle_high = 70, r.middle_scale = 0.75f;
    r.residual_scale = 0.5f, r.residual_zero = 11;
    if (random() % 4 == 0) r.slope = 0.25f;
    if (random() & 1) r.low = -50, r.high = 90;
    return r;
}

template <class Run>
void integer_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    struct Product {
        Dims a, b;
    };
    Product const products[] = {{{5, 8}, {8, 12}},           {{33, 37}, {37, 35}}, {{3, 7, 9}, {9, 5}},
                                {{2, 1, 4, 16}, {3, 16, 8}}, {{1, 40}, {40, 3}},   {{70, 20}, {20, 130}},
                                {{2, 3, 5}, {2, 5, 4}},      {{4, 0}, {0, 3}},     {{1060, 71}, {71, 1030}}};
    for (auto a : {U8, I8})
        for (auto b : {U8, I8})
            for (auto const& [x, w] : products) {
                DataType const results[]{I32, F32, U8, I8};
                auto y = results[random() % 4];
                auto m = x[x.size() - 2], k = x.back(), n = w.back();
                if (m > 1000 ? a != U8 || b != I8 : random() % 2) continue;
                Dims dims = w.size() > x.size() ? w : x;
                if (x.size() == 4) dims = {2, 3, 0, 0};
                dims[dims.size() - 2] = m, dims.back() = n;
                Dims a_zeros{}, b_zeros{};
                if (random() & 1) a_zeros = {m};
                if (random() & 1) b_zeros = {n};
                std::vector<Tensor> inputs{Tensor(a, x).fill(random), Tensor(b, w).fill(random)};
                for (auto& t : integer_operands(a, b, y, a_zeros, b_zeros, n, k, dims, random)) inputs.push_back(t);
                run(IntegerMatMulInfo{integer_result(y, random)}, inputs, {Tensor(y, dims)});
            }
    for (int round = 0; round < 16; ++round) {
        DataType const results[]{I32, F32, U8, I8};
        auto a = round % 2 ? U8 : I8, b = round % 3 ? I8 : U8, y = results[random() % 4];
        auto axes = pick(random, 1, 3), group = round % 4 == 0 ? pick(random, 2, 4) : 1;
        auto in = pick(random, 1, 5), out = round % 3 == 0 ? pick(random, 1, 4) : pick(random, 8, 40);
        IntegerConvInfo info;
        info.group = group, info.channels_last = random() & 1, info.result = integer_result(y, random);
        Dims kernel, spatial_x, spatial_y;
        for (int64_t i = 0; i < axes; ++i) kernel.push_back(pick(random, 1, 3));
        info.window = window(axes, random, kernel);
        for (size_t i = 0; i < kernel.size(); ++i) {
            spatial_x.push_back(pick(random, 6, 9));
            auto room = spatial_x[i] + info.window.pads_begin[i] + info.window.pads_end[i] -
                        (kernel[i] - 1) * info.window.dilations[i] - 1;
            spatial_y.push_back(room / info.window.strides[i] + 1);
        }
        auto sizes = [&](int64_t channels, Dims const& spatial) {
            Dims dims{2};
            if (!info.channels_last) dims.push_back(channels);
            for (auto size : spatial) dims.push_back(size);
            if (info.channels_last) dims.push_back(channels);
            return dims;
        };
        Dims w{out * group, in};
        for (auto size : kernel) w.push_back(size);
        auto dims = sizes(out * group, spatial_y);
        Dims w_zeros{};
        if (random() & 1) w_zeros = {out * group};
        std::vector<Tensor> inputs{Tensor(a, sizes(in * group, spatial_x)).fill(random), Tensor(b, w).fill(random)};
        for (auto& t : integer_operands(a, b, y, {}, w_zeros, out * group, in * element_count(kernel), dims, random))
            inputs.push_back(t);
        run(info, inputs, {Tensor(y, dims)});
    }
    // Enough squares of 64 sums to fill a card.
    for (bool last : {false, true}) {
        IntegerConvInfo info;
        info.channels_last = last, info.result = integer_result(U8, random);
        info.window.strides = {1, 1}, info.window.dilations = {1, 1};
        info.window.pads_begin = {1, 0}, info.window.pads_end = {1, 0};
        Dims x{2, 12, 67, 69}, dims{2, 150, 67, 69};
        if (last) x = {2, 67, 69, 12}, dims = {2, 67, 69, 150};
        std::vector<Tensor> inputs{Tensor(U8, x).fill(random), Tensor(I8, {150, 12, 3, 1}).fill(random)};
        for (auto& t : integer_operands(U8, I8, U8, {}, {}, 150, 36, dims, random)) inputs.push_back(t);
        run(info, inputs, {Tensor(U8, dims)});
    }
}

}  // namespace refactor::kernel::testing::rows
