#include "deform_columns/deform_columns.h"

#include "conv/geometry.h"
#include "cuda/movement_kernels.h"
#include "grid_sample/blend.h"
#include "grid_sample/pairs.h"
#include "movement/ranges.h"
#include "reduce/scalar_type.h"

#include <cmath>

namespace refactor::kernel {

using movement::make_task;
using movement::TaskResult;

std::string DeformColumnsInfo::attributes() const {
    return "kernel=" + dims_text(kernel) + " " + to_string(window) + " groups=" + std::to_string(groups);
}

Candidates candidates(DeformColumnsInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("deform_columns:nvidia:nvrtc", cuda::deform_columns_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "deform_columns/deform_columns_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

struct Shapes {
    DeformColumnsInfo info;
    int64_t batch, channels, in[2], out[2];
    bool masked;

    int64_t plane() const { return in[0] * in[1]; }
    int64_t positions() const { return out[0] * out[1]; }
    int64_t taps() const { return info.kernel[0] * info.kernel[1]; }
};

Result<Shapes, Rejection> shapes_of(DeformColumnsInfo const& info, BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &offset = args.inputs[1]->dims, &y = args.outputs[0]->dims;
    bool masked = args.inputs.size() > 2 && args.inputs[2];
    bool fits = x.size() == 4 && offset.size() == 4 && y.size() == 3 && info.kernel.size() == 2 && info.groups > 0;
    auto taps = fits ? info.kernel[0] * info.kernel[1] : 0;
    fits = fits && x[1] % info.groups == 0 && offset[0] == x[0] && offset[1] == info.groups * taps * 2 &&
           y[0] == x[0] && y[1] == x[1] * taps && y[2] == offset[2] * offset[3];
    if (fits && masked) {
        auto const& mask = args.inputs[2]->dims;
        fits = mask.size() == 4 && mask[0] == x[0] && mask[1] == info.groups * taps && mask[2] == offset[2] &&
               mask[3] == offset[3];
    }
    if (fits) return Shapes{info, x[0], x[1], {x[2], x[3]}, {offset[2], offset[3]}, masked};
    return Err{Rejection{info.attributes() + ", input " + movement::to_string(x) + ", offset " +
                         movement::to_string(offset) + ", output " + movement::to_string(y)}};
}

/// The two elements around a coordinate; -1 outside.
template <class F>
struct Neighbours {
    int64_t index[2];
    F weight[2];
    Neighbours(F at, int64_t size) {
        // Far outside, and for NaN, any place that touches nothing will do.
        if (!(at > F(-2))) at = -2;
        at = std::min(at, static_cast<F>(size) + 1);
        auto base = std::floor(at);
        weight[1] = at - base, weight[0] = 1 - weight[1];
        for (int k = 0; k < 2; ++k) {
            auto i = static_cast<int64_t>(base) + k;
            index[k] = i >= 0 && i < size ? i : -1;
        }
    }
};

/// Where tap `tap` of group `group` of picture `n` looks at from position `p`: four offsets in the plane (-1: zero) and
/// their weights, `step` apart.
template <class F, class T>
void locate(Shapes const& s, int64_t n, int64_t group, int64_t tap, int64_t p, T const* offsets, T const* mask,
            int64_t* offset, F* weight, int step) {
    auto const& w = s.info.window;
    auto row = (n * s.info.groups + group) * s.taps() + tap, positions = s.positions();
    auto coordinate = [&](int axis, int64_t place, int64_t part) {
        auto fixed = place * w.strides[axis] - w.pads_begin[axis] + part * w.dilations[axis];
        return static_cast<F>(fixed) + static_cast<F>(widen(offsets[(2 * row + axis) * positions + p]));
    };
    Neighbours<F> rows(coordinate(0, p / s.out[1], tap / s.info.kernel[1]), s.in[0]);
    Neighbours<F> columns(coordinate(1, p % s.out[1], tap % s.info.kernel[1]), s.in[1]);
    F share = mask ? static_cast<F>(widen(mask[row * positions + p])) : F(1);
    for (int k = 0; k < 4; ++k) {
        auto i = rows.index[k / 2], j = columns.index[k % 2];
        offset[k * step] = i < 0 || j < 0 ? -1 : i * s.in[1] + j;
        weight[k * step] = share * rows.weight[k / 2] * columns.weight[k % 2];
    }
}

template <class T>
void sample(Shapes const& s, void* const* a) {
    auto *x = static_cast<T const*>(a[0]), *offsets = static_cast<T const*>(a[1]);
    auto* mask = s.masked ? static_cast<T const*>(a[2]) : nullptr;
    auto* y = static_cast<T*>(a[s.masked ? 3 : 2]);
    auto shared = s.channels / s.info.groups;
    for (int64_t column = 0; column < s.batch * s.channels * s.taps(); ++column) {
        auto tap = column % s.taps(), c = column / s.taps() % s.channels, n = column / s.taps() / s.channels;
        for (int64_t p = 0; p < s.positions(); ++p) {
            int64_t offset[4];
            double weight[4], sum = 0;
            locate(s, n, c / shared, tap, p, offsets, mask, offset, weight, 1);
            for (int k = 0; k < 4; ++k)
                if (offset[k] >= 0) sum += weight[k] * widen(x[(n * s.channels + c) * s.plane() + offset[k]]);
            y[column * s.positions() + p] = narrow<T>(sum);
        }
    }
}

TaskResult bind_reference(DeformColumnsInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    return make_task([s = *shapes, type = args.inputs[0]->dtype](void* const* a, runtime::RunContext const&) {
        visit_float(type, [&](auto tag) { sample<typename decltype(tag)::type>(s, a); });
    });
}

TaskResult bind_taps(DeformColumnsInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    return make_task([s = *shapes](void* const* a, runtime::RunContext const& context) {
        auto *x = static_cast<float const*>(a[0]), *offsets = static_cast<float const*>(a[1]);
        auto* mask = s.masked ? static_cast<float const*>(a[2]) : nullptr;
        auto* y = static_cast<float*>(a[s.masked ? 3 : 2]);
        constexpr int kStep = kBlockTaps / 4;
        auto blocks = (s.positions() + kStep - 1) / kStep, shared = s.channels / s.info.groups;
        auto ns = kStep * (10 + 2. * static_cast<double>(shared));
        auto items = s.batch * s.info.groups * s.taps() * blocks;
        movement::for_ranges(context.pool, items, ns, [&](int64_t begin, int64_t end) {
            SampleBlock block;
            for (auto item = begin; item < end; ++item) {
                auto first = item % blocks * kStep, tap = item / blocks % s.taps(), set = item / blocks / s.taps();
                auto n = set / s.info.groups, group = set % s.info.groups;
                auto count = static_cast<int>(std::min<int64_t>(kStep, s.positions() - first));
                for (int p = 0; p < count; ++p)
                    locate(s, n, group, tap, first + p, offsets, mask, block.offset + p, block.weight + p, kStep);
                for (auto c = n * s.channels + group * shared, last = c + shared; c < last; ++c)
                    blend(block, 4, count, kStep, x + c * s.plane(), y + (c * s.taps() + tap) * s.positions() + first);
            }
        });
    });
}

#if RG_X86
/// Coordinates that tap `tap` (of row `row` of the offsets) looks at from `count` positions on.
void places_of(Shapes const& s, int64_t row, int64_t tap, int64_t first, int count, float const* offsets, float* rows,
               float* columns) {
    auto const& w = s.info.window;
    auto *down = offsets + 2 * row * s.positions() + first, *right = down + s.positions();
    for (int p = 0; p < count;) {
        auto i = (first + p) / s.out[1], j = (first + p) % s.out[1];
        auto end = static_cast<int>(std::min<int64_t>(count, p + s.out[1] - j));
        auto top = static_cast<float>(i * w.strides[0] - w.pads_begin[0] + tap / s.info.kernel[1] * w.dilations[0]);
        auto left = static_cast<int>(j * w.strides[1] - w.pads_begin[1] + tap % s.info.kernel[1] * w.dilations[1]),
             stride = static_cast<int>(w.strides[1]);
        for (int k = p; k < end; ++k) {
            rows[k] = top + down[k];
            columns[k] = static_cast<float>(left + stride * (k - p)) + right[k];
        }
        p = end;
    }
    for (int p = count; p < pair_step(count); ++p) rows[p] = columns[p] = 0;
}

TaskResult bind_pairs(DeformColumnsInfo const& info, BindArgs const& args, Isa isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    // Places are counted in 32 bits.
    auto const& w = info.window;
    auto reach = std::max(shapes->out[0] * w.strides[0] + info.kernel[0] * w.dilations[0],
                          shapes->out[1] * w.strides[1] + info.kernel[1] * w.dilations[1]);
    if (shapes->in[1] < 2 || shapes->plane() > INT32_MAX || reach > INT32_MAX / 2) return bind_taps(info, args, isa);
    return make_task([s = *shapes](void* const* a, runtime::RunContext const& context) {
        auto *x = static_cast<float const*>(a[0]), *offsets = static_cast<float const*>(a[1]);
        auto* mask = s.masked ? static_cast<float const*>(a[2]) : nullptr;
        auto* y = static_cast<float*>(a[s.masked ? 3 : 2]);
        constexpr int kStep = kBlockPairs / 2;
        auto blocks = (s.positions() + kStep - 1) / kStep, shared = s.channels / s.info.groups;
        auto ns = kStep * (3 + static_cast<double>(shared));
        auto items = s.batch * s.info.groups * s.taps() * blocks;
        movement::for_ranges(context.pool, items, ns, [&](int64_t begin, int64_t end) {
            PairBlock block;
            float rows[kStep], columns[kStep], shares[kStep];
            for (auto item = begin; item < end; ++item) {
                auto first = item % blocks * kStep, row = item / blocks, tap = row % s.taps(), set = row / s.taps();
                auto n = set / s.info.groups, group = set % s.info.groups;
                auto count = static_cast<int>(std::min<int64_t>(kStep, s.positions() - first));
                places_of(s, row, tap, first, count, offsets, rows, columns);
                if (mask) {
                    std::copy_n(mask + row * s.positions() + first, count, shares);
                    std::fill(shares + count, shares + pair_step(count), 0.f);
                }
                make_pairs_avx2({rows, columns, mask ? shares : nullptr, count, s.in[0], s.in[1], false}, block);
                for (auto c = n * s.channels + group * shared, last = c + shared; c < last; ++c)
                    blend_pairs_avx2(block, 2, count, x + c * s.plane(),
                                     y + (c * s.taps() + tap) * s.positions() + first);
            }
        });
    });
}
#endif

std::optional<Rejection> refuse_columns(Request const& request) {
    if (auto no = movement::refuse(request, {.min_inputs = 2, .max_inputs = 3})) return no;
    for (auto const& input : request.inputs)
        if (!input.absent() && (!is_any_float(input.dtype) || input.dtype != request.inputs[0].dtype))
            return Rejection{"expects floats of one type"};
    return std::nullopt;
}

std::optional<Rejection> refuse_all_but_f32(Request const& request) {
    if (auto no = refuse_columns(request)) return no;
    if (request.inputs[0].dtype != DataType::F32)
        return Rejection{"input of " + std::string(name_of(request.inputs[0].dtype)) + ", expected f32"};
    return std::nullopt;
}

}  // namespace

movement::KernelResult deform_columns_pairs(DeformColumnsInfo const& info, Request const& request) {
    if (auto no = refuse_all_but_f32(request)) return Err{*no};
#if RG_X86
    if (request.isa >= Isa::Avx2)
        return movement::KernelResult(std::make_unique<movement::InfoKernel<DeformColumnsInfo>>(
            info, movement::make_id("deform_columns", "pairs", request, name_of(Isa::Avx2)), Isa::Avx2, bind_pairs));
#endif
    return Err{Rejection{"needs avx2, allowed is " + std::string(name_of(request.isa))}};
}

movement::KernelResult deform_columns_taps(DeformColumnsInfo const& info, Request const& request) {
    if (auto no = refuse_all_but_f32(request)) return Err{*no};
    return movement::make_kernel(info, "deform_columns", "taps", request, bind_taps);
}

movement::KernelResult deform_columns_reference(DeformColumnsInfo const& info, Request const& request) {
    if (auto no = refuse_columns(request)) return Err{*no};
    return movement::make_kernel(info, "deform_columns", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
