#pragma once
#include "cuda/table_cases.h"

/// The same for kernels that compute: scans, selection and resampling.
namespace refactor::kernel::testing {

template <class Run>
void scan_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    struct Line {
        Dims dims;
        int64_t axis;
    };
    Line const lines[]{{{3, 1500}, 1}, {{3, 300, 5}, 1}, {{7}, 0}, {{2, 20000}, 1}, {{1, 600, 2}, 1}};
    for (auto type : {F32, F64, F16, BF16, I8, U8, I32, I64})
        for (int flags = 0; flags < 8; ++flags) {
            if (type != F32 && flags != static_cast<int>(type) % 8) continue;
            for (auto const& c : lines) {
                CumSumInfo info{c.axis, (flags & 1) != 0, (flags & 2) != 0, (flags & 4) != 0};
                // Partial sums exceed the last one: they are about as large as the root of their number.
                auto terms = std::sqrt(static_cast<double>(c.dims[static_cast<size_t>(c.axis)]));
                run(info, {numbers(type, c.dims, random, info.product ? 0.1 : 1)}, {Tensor(type, c.dims)}, {},
                    4 * rounding_of(type, terms));
            }
        }
}

template <class Run>
void top_k_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    struct Lines {
        Dims dims;
        int64_t axis, k;
    };
    Lines const lines[]{{{5, 131}, 1, 7},    {{33, 5}, 0, 33},     {{3, 17, 4}, 1, 1},  {{2, 1}, 1, 1},
                        {{2, 3000}, 1, 100}, {{1500, 2}, 0, 1000}, {{2, 2500}, 1, 2500}};
    for (auto type : {F32, F64, F16, BF16, I8, U8, I16, I32, U32, I64, U64})
        for (auto const& c : lines)
            for (bool largest : {true, false}) {
                auto x = numbers(type, c.dims, random, 1);
                if (type == F32) x.template as<float>()[0] = -0.f, x.template as<float>()[1] = std::nanf("");
                auto y = c.dims;
                y[static_cast<size_t>(c.axis)] = c.k;
                run(TopKInfo{c.axis, largest, true}, {x}, {Tensor(type, y), Tensor(I64, y)});
            }
}

inline ResizeInfo resize_of(ResizeMode mode) {
    ResizeInfo info;
    info.mode = mode;
    return info;
}

template <class Run>
void resize_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    // Eight roundings of a sum of weights (at most 2 in all) times numbers (at most 12).
    constexpr double kTolerance = 8 * 2 * 12 * 0x1p-24;
    for (int mode = 0; mode < 3; ++mode)
        for (int coordinates = 0; coordinates < 7; ++coordinates)
            for (int variant = 0; variant < 4; ++variant) {
                if (variant > 0 && coordinates != mode + variant) continue;
                auto info = resize_of(static_cast<ResizeMode>(mode));
                info.coordinates = static_cast<ResizeCoordinates>(coordinates);
                info.rounding = static_cast<ResizeRounding>(variant);
                info.exclude_outside = variant == 1, info.antialias = mode > 0 && variant == 2;
                info.extrapolation = 1.5f;
                if (coordinates == 5) info.roi = {0, 0, 0.1f, -0.2f, 1, 1, 0.8f, 1.3f};
                run(info, {numbers(F32, {2, 3, 7, 9}, random)}, {Tensor(F32, {2, 3, 13, 5})}, {}, kTolerance);
                info.roi = {}, info.scales = {1.7f};
                if (coordinates != 5) run(info, {numbers(F32, {11}, random)}, {Tensor(F32, {18})}, {}, kTolerance);
            }
    for (auto type : {F64, F16, BF16, U8, I8, I32}) {
        run(resize_of(ResizeMode::Linear), {numbers(type, {1, 2, 5, 6}, random)}, {Tensor(type, {1, 2, 11, 4})}, {},
            rounding_of(type));
        run(resize_of(ResizeMode::Cubic), {numbers(type, {2, 5, 6, 3}, random)}, {Tensor(type, {2, 11, 4, 3})}, {},
            rounding_of(type));
    }
    for (auto type : kWidths) run(ResizeInfo{}, {bytes(type, {2, 3, 5, 6}, random)}, {Tensor(type, {2, 3, 10, 12})});
}

template <class Run>
void grid_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    struct Sampled {
        Dims x, grid;
    };
    Sampled const all[]{{{2, 5, 7, 9}, {2, 11, 13, 2}},
                        {{1, 3, 1, 1}, {1, 4, 5, 2}},
                        {{1, 2, 13}, {1, 70, 1}},
                        {{2, 3, 4, 5, 6}, {2, 5, 3, 7, 3}}};
    for (auto const& c : all)
        for (int mode = 0; mode < 3; ++mode)
            for (int padding = 0; padding < 3; ++padding)
                for (bool align : {false, true}) {
                    GridSampleInfo info{static_cast<GridMode>(mode), static_cast<GridPadding>(padding), align};
                    Dims y{c.x[0], c.x[1]};
                    for (size_t i = 1; i + 1 < c.grid.size(); ++i) y.push_back(c.grid[i]);
                    auto grid = numbers(F32, c.grid, random, 0.8);
                    grid.template as<float>()[0] = 1e30f, grid.template as<float>()[1] = std::nanf("");
                    // At most 64 weights that add up to 4 at most.
                    if (c.x.size() != 4 && padding != mode) continue;
                    run(info, {numbers(F32, c.x, random), grid}, {Tensor(F32, y)}, {}, 64 * 4 * 6e-8 * 10);
                }
    for (auto type : {F64, F16, U8, I32})
        for (auto grid : {F64, F16, BF16})
            run(GridSampleInfo{}, {numbers(type, {1, 3, 6, 7}, random), numbers(grid, {1, 4, 5, 2}, random, 0.8)},
                {Tensor(type, {1, 3, 4, 5})}, {}, rounding_of(type, 10));
    run(GridSampleInfo{GridMode::Nearest},
        {bytes(Complex128, {1, 2, 3, 4}, random), numbers(F32, {1, 5, 5, 2}, random)},
        {Tensor(Complex128, {1, 2, 5, 5})});
}

template <class Run>
void region_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    for (auto type : {F32, F64, F16, BF16}) {
        auto rois = numbers(type, {6, 4}, random, 4);
        visit_float(type, [&](auto tag) {
            using T = typename decltype(tag)::type;
            for (int64_t i = 0; i < 12; ++i) {
                auto low = std::abs(widen(rois.template as<T>()[i]));
                rois.template as<T>()[i / 2 * 4 + i % 2] = narrow<T>(low);
                rois.template as<T>()[i / 2 * 4 + i % 2 + 2] = narrow<T>(low + 5);
            }
        });
        auto batches = indices(I64, {6}, 0, 1, random);
        for (bool maximum : {false, true})
            for (int ratio : {0, 2})
                run(RoiAlignInfo{maximum, ratio == 0, ratio, 0.75f},
                    {numbers(type, {2, 3, 11, 13}, random), rois, batches}, {Tensor(type, {6, 3, 3, 4})}, {},
                    rounding_of(type, 20) * 4);
        auto regions = numbers(type, {5, 5}, random, 3);
        visit_float(type, [&](auto tag) {
            using T = typename decltype(tag)::type;
            for (int64_t i = 0; i < 5; ++i) regions.template as<T>()[i * 5] = narrow<T>(static_cast<double>(i % 2));
        });
        run(MaxRoiPoolInfo{0.9f}, {numbers(type, {2, 3, 9, 10}, random), regions}, {Tensor(type, {5, 3, 2, 3})});
    }
}

template <class Run>
void column_cases(std::mt19937& random, Run&& run) {
    using enum DataType;
    for (auto type : {F32, F64, F16, I32, U8}) {
        run(Col2ImInfo{{3, 2}, {{2, 1}, {1, 2}, {1, 0}, {0, 1}}}, {numbers(type, {2, 18, 3 * 6}, random)},
            {Tensor(type, {2, 3, 6, 7})}, {}, rounding_of(type, 6) * 4);
        run(Col2ImInfo{{3}, {{1}, {1}, {1}, {1}}}, {numbers(type, {2, 6, 9}, random)}, {Tensor(type, {2, 2, 9})}, {},
            rounding_of(type, 6) * 4);
    }
    for (auto type : {F32, F64, BF16})
        for (bool masked : {false, true}) {
            std::vector<Tensor> inputs{numbers(type, {2, 4, 6, 7}, random),
                                       numbers(type, {2, 2 * 6 * 2, 5, 4}, random, 1)};
            if (masked) inputs.push_back(numbers(type, {2, 2 * 6, 5, 4}, random, 1));
            run(DeformColumnsInfo{{3, 2}, {{1, 2}, {1, 1}, {1, 1}, {0, 0}}, 2}, inputs, {Tensor(type, {2, 24, 20})}, {},
                rounding_of(type, 16) * 8);
        }
}

template <class Run>
void all_sampling_cases(std::mt19937& random, Run&& run) {
    scan_cases(random, run), top_k_cases(random, run), resize_cases(random, run), grid_cases(random, run);
    region_cases(random, run), column_cases(random, run);
}

}  // namespace refactor::kernel::testing
