#include "grid_sample/grid_sample.h"

#include "cuda/movement_kernels.h"
#include "grid_sample/blend.h"
#include "grid_sample/grid_taps.h"
#include "grid_sample/pairs.h"
#include "movement/ranges.h"
#include "reduce/scalar_type.h"

namespace refactor::kernel {

using movement::make_task;
using movement::TaskResult;

std::string GridSampleInfo::attributes() const {
    constexpr char const* kModes[]{"nearest", "linear", "cubic"};
    constexpr char const* kPaddings[]{"zeros", "border", "reflection"};
    return std::string(kModes[static_cast<int>(mode)]) + "," + kPaddings[static_cast<int>(padding)] +
           (align_corners ? ",align_corners" : "");
}

Candidates candidates(GridSampleInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("grid_sample:nvidia:nvrtc", cuda::grid_sample_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "grid_sample/grid_sample_kernels.inc"
#undef RG_KERNEL
    return result;
}

std::optional<Rejection> refuse_grid_shapes(BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &grid = args.inputs[1]->dims, &y = args.outputs[0]->dims;
    auto rank = x.size();
    bool fits = rank >= 3 && rank <= 5 && grid.size() == rank && y.size() == rank && grid[0] == x[0] && y[0] == x[0] &&
                y[1] == x[1] && grid[rank - 1] == static_cast<int64_t>(rank) - 2;
    for (size_t i = 2; fits && i < rank; ++i) fits = y[i] == grid[i - 1] && (x[i] > 0 || args.outputs[0]->count() == 0);
    if (fits) return std::nullopt;
    return Rejection{"input " + movement::to_string(x) + ", grid " + movement::to_string(grid) + ", output " +
                     movement::to_string(y)};
}

namespace {

struct Shapes {
    int64_t batch, channels, positions, plane;
};
Shapes shapes_of(BindArgs const& args, int64_t plane) {
    auto const& y = args.outputs[0]->dims;
    return {y[0], y[1], movement::count_of(y, 2, y.size()), plane};
}

/// One sample for all channels.
template <class T>
void interpolate(Shapes const& s, int64_t const* offset, double const* weight, int taps, T const* x, T* y) {
    for (int64_t c = 0; c < s.channels; ++c) {
        double sum = 0;
        for (int k = 0; k < taps; ++k)
            if (offset[k] >= 0) sum += weight[k] * static_cast<double>(widen(x[c * s.plane + offset[k]]));
        y[c * s.positions] = from_real<T>(sum);
    }
}
/// The same for the nearest element, of any type of `sizeof(T)` bytes.
template <class T>
void pick(Shapes const& s, int64_t offset, std::byte const* x, std::byte* y) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
    for (int64_t c = 0; c < s.channels; ++c)
        movement::store(y + c * s.positions * kBytes,
                        offset < 0 ? T{} : movement::load<T>(x + (c * s.plane + offset) * kBytes));
}

/// Calls `sample(n, position, offset, weight)` for every position; coordinates of f64 grids are f64.
template <class F, class Body>
void each_sample(GridTaps<F> const& taps, Shapes const& s, DataType type, void const* grid, ThreadPool& pool,
                 Body const& sample) {
    auto ns = 20. * taps.count() + 3. * static_cast<double>(s.channels) * taps.count();
    movement::for_ranges(pool, s.batch * s.positions, ns, [&](int64_t begin, int64_t end) {
        F place[3], weight[GridTaps<F>::kMostTaps];
        int64_t offset[GridTaps<F>::kMostTaps];
        double wide[GridTaps<F>::kMostTaps];
        for (auto i = begin; i < end; ++i) {
            read_floats(type, grid, i * taps.axes(), taps.axes(), place);
            taps.at(place, offset, weight, 1);
            for (int k = 0; k < taps.count(); ++k) wide[k] = static_cast<double>(weight[k]);
            sample(i / s.positions, i % s.positions, offset, wide);
        }
    });
}

template <class F>
TaskResult bind_typed(GridSampleInfo const& info, BindArgs const& args) {
    GridTaps<F> taps(info, args.inputs[0]->dims);
    return make_task([taps, s = shapes_of(args, taps.plane()), type = args.inputs[0]->dtype,
                      grid_type = args.inputs[1]->dtype,
                      nearest = info.mode == GridMode::Nearest](void* const* a, runtime::RunContext const& context) {
        if (nearest) {
            auto bytes = movement::element_bytes(type);
            each_sample(taps, s, grid_type, a[1], context.pool, [&](int64_t n, int64_t p, auto* offset, auto*) {
                auto* x = static_cast<std::byte const*>(a[0]) + n * s.channels * s.plane * bytes;
                auto* y = static_cast<std::byte*>(a[2]) + (n * s.channels * s.positions + p) * bytes;
                movement::with_word(bytes, [&](auto word) { pick<decltype(word)>(s, offset[0], x, y); });
            });
            return;
        }
        visit_numeric(type, [&](auto tag) {
            using T = typename decltype(tag)::type;
            each_sample(taps, s, grid_type, a[1], context.pool, [&](int64_t n, int64_t p, auto* offset, auto* weight) {
                interpolate(s, offset, weight, taps.count(), static_cast<T const*>(a[0]) + n * s.channels * s.plane,
                            static_cast<T*>(a[2]) + n * s.channels * s.positions + p);
            });
        });
    });
}

TaskResult bind_reference(GridSampleInfo const& info, BindArgs const& args, Isa) {
    if (auto no = refuse_grid_shapes(args)) return Err{*no};
    return args.inputs[1]->dtype == DataType::F64 ? bind_typed<double>(info, args) : bind_typed<float>(info, args);
}

TaskResult bind_taps(GridSampleInfo const& info, BindArgs const& args, Isa) {
    if (auto no = refuse_grid_shapes(args)) return Err{*no};
    GridTaps<float> taps(info, args.inputs[0]->dims);
    return make_task([taps, s = shapes_of(args, taps.plane())](void* const* a, runtime::RunContext const& context) {
        auto *x = static_cast<float const*>(a[0]), *grid = static_cast<float const*>(a[1]);
        auto* y = static_cast<float*>(a[2]);
        int count = taps.count(), step = kBlockTaps / count;
        auto blocks = (s.positions + step - 1) / step;
        auto ns = static_cast<double>(kBlockTaps) * (4 + static_cast<double>(s.channels));
        movement::for_ranges(context.pool, s.batch * blocks, ns, [&](int64_t begin, int64_t end) {
            SampleBlock block;
            for (auto i = begin; i < end; ++i) {
                auto n = i / blocks, first = i % blocks * step;
                auto positions = static_cast<int>(std::min<int64_t>(step, s.positions - first));
                for (int p = 0; p < positions; ++p)
                    taps.at(grid + (n * s.positions + first + p) * taps.axes(), block.offset + p, block.weight + p,
                            step);
                for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c)
                    blend(block, count, positions, step, x + c * s.plane, y + c * s.positions + first);
            }
        });
    });
}

#if RG_X86
/// Coordinates of `count` points of a grid, as `make_pairs_avx2` reads them.
void places_of(GridSampleInfo const& info, GridTaps<float> const& taps, float const* grid, int count, int64_t height,
               int64_t width, float* row, float* column) {
    if (info.padding != GridPadding::Reflection)
        grid_places_avx2(grid, count, height, width, info.align_corners, row, column);
    else
        for (int p = 0; p < count; ++p)
            row[p] = taps.source(grid[2 * p + 1], height), column[p] = taps.source(grid[2 * p], width);
    for (int p = count; p < pair_step(count); ++p) row[p] = column[p] = 0;
}

/// Bilinear samples of planes that are at least two elements wide.
TaskResult bind_pairs(GridSampleInfo const& info, BindArgs const& args, Isa isa) {
    if (auto no = refuse_grid_shapes(args)) return Err{*no};
    auto const& x_dims = args.inputs[0]->dims;
    GridTaps<float> taps(info, x_dims);
    if (x_dims.size() != 4 || x_dims[3] < 2 || taps.plane() > INT32_MAX) return bind_taps(info, args, isa);
    auto body = [info, taps, s = shapes_of(args, taps.plane()), height = x_dims[2], width = x_dims[3]](
                    void* const* a, runtime::RunContext const& context) {
        auto *x = static_cast<float const*>(a[0]), *grid = static_cast<float const*>(a[1]);
        auto* y = static_cast<float*>(a[2]);
        constexpr int kStep = kBlockPairs / 2;
        auto blocks = (s.positions + kStep - 1) / kStep;
        auto ns = static_cast<double>(kStep) * (2 + static_cast<double>(s.channels));
        movement::for_ranges(context.pool, s.batch * blocks, ns, [&](int64_t begin, int64_t end) {
            PairBlock block;
            float row[kStep], column[kStep];
            for (auto i = begin; i < end; ++i) {
                auto n = i / blocks, first = i % blocks * kStep;
                auto count = static_cast<int>(std::min<int64_t>(kStep, s.positions - first));
                places_of(info, taps, grid + 2 * (n * s.positions + first), count, height, width, row, column);
                make_pairs_avx2({row, column, nullptr, count, height, width, info.padding != GridPadding::Zeros},
                                block);
                for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c)
                    blend_pairs_avx2(block, 2, count, x + c * s.plane, y + c * s.positions + first);
            }
        });
    };
    return make_task(body);
}
#endif

std::optional<Rejection> refuse_grid(Request const& request) {
    if (auto no = movement::refuse(request, {.min_inputs = 2, .max_inputs = 2})) return no;
    if (!is_any_float(request.inputs[1].dtype))
        return Rejection{"grid of " + std::string(name_of(request.inputs[1].dtype)) + ", expected floats"};
    return std::nullopt;
}

std::optional<Rejection> refuse_all_but_f32(Request const& request) {
    if (auto no = refuse_grid(request)) return no;
    for (auto const& input : request.inputs)
        if (input.dtype != DataType::F32)
            return Rejection{"input of " + std::string(name_of(input.dtype)) + ", expected f32"};
    return std::nullopt;
}

}  // namespace

movement::KernelResult grid_sample_pairs(GridSampleInfo const& info, Request const& request) {
    if (auto no = refuse_all_but_f32(request)) return Err{*no};
    if (info.mode != GridMode::Linear) return Err{Rejection{info.attributes() + ", expected linear"}};
#if RG_X86
    if (request.isa >= Isa::Avx2)
        return movement::KernelResult(std::make_unique<movement::InfoKernel<GridSampleInfo>>(
            info, movement::make_id("grid_sample", "pairs", request, name_of(Isa::Avx2)), Isa::Avx2, bind_pairs));
#endif
    return Err{Rejection{"needs avx2, allowed is " + std::string(name_of(request.isa))}};
}

movement::KernelResult grid_sample_taps(GridSampleInfo const& info, Request const& request) {
    if (auto no = refuse_all_but_f32(request)) return Err{*no};
    return movement::make_kernel(info, "grid_sample", "taps", request, bind_taps);
}

movement::KernelResult grid_sample_reference(GridSampleInfo const& info, Request const& request) {
    if (auto no = refuse_grid(request)) return Err{*no};
    if (info.mode != GridMode::Nearest && !is_any_numeric(request.inputs[0].dtype))
        return Err{Rejection{"interpolation of " + std::string(name_of(request.inputs[0].dtype))}};
    return movement::make_kernel(info, "grid_sample", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
