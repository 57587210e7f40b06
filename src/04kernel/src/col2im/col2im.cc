#include "col2im/col2im.h"

#include "col2im/col2im_band.h"
#include "conv/geometry.h"
#include "cuda/movement_kernels.h"
#include "movement/ranges.h"
#include "reduce/scalar_type.h"

namespace refactor::kernel {

using movement::make_task;
using movement::TaskResult;

std::string Col2ImInfo::attributes() const { return "kernel=" + dims_text(kernel) + " " + to_string(window); }

Candidates candidates(Col2ImInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("col2im:nvidia:nvrtc", cuda::col2im_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "col2im/col2im_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

/// Three spatial axes; missing leading ones have size 1 and a window of 1.
struct Shapes {
    int64_t pictures, size[3]{1, 1, 1}, places[3]{1, 1, 1}, kernel[3]{1, 1, 1};
    int64_t stride[3]{1, 1, 1}, dilation[3]{1, 1, 1}, pad[3]{};

    int64_t plane() const { return size[0] * size[1] * size[2]; }
    int64_t positions() const { return places[0] * places[1] * places[2]; }
    int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

Result<Shapes, Rejection> shapes_of(Col2ImInfo const& info, BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    auto axes = info.kernel.size();
    auto mismatch = [&] {
        return Err{
            Rejection{info.attributes() + ", input " + movement::to_string(x) + ", output " + movement::to_string(y)}};
    };
    if (axes < 1 || axes > 3 || x.size() != 3 || y.size() != axes + 2) return mismatch();
    Shapes s;
    s.pictures = y[0] * y[1];
    for (size_t i = 0; i < axes; ++i) {
        auto to = i + 3 - axes;
        s.size[to] = y[i + 2], s.kernel[to] = info.kernel[i], s.stride[to] = info.window.strides[i];
        s.dilation[to] = info.window.dilations[i], s.pad[to] = info.window.pads_begin[i];
        auto span = s.size[to] + s.pad[to] + info.window.pads_end[i] - s.dilation[to] * (s.kernel[to] - 1) - 1;
        s.places[to] = span < 0 ? 0 : span / s.stride[to] + 1;
    }
    if (x[0] != y[0] || x[1] != y[1] * s.taps() || x[2] != s.positions()) return mismatch();
    return s;
}

/// Sum for one element: the taps that reach it from some place.
template <class T>
Wide<T> gathered(Shapes const& s, T const* columns, int64_t const (&at)[3]) {
    Wide<T> sum = 0;
    for (int64_t tap = 0; tap < s.taps(); ++tap) {
        int64_t const part[]{tap / (s.kernel[1] * s.kernel[2]), tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
        int64_t place = 0;
        bool hit = true;
        for (int axis = 0; axis < 3 && hit; ++axis) {
            auto from = at[axis] + s.pad[axis] - part[axis] * s.dilation[axis];
            hit = from >= 0 && from % s.stride[axis] == 0 && from / s.stride[axis] < s.places[axis];
            place = place * s.places[axis] + from / s.stride[axis];
        }
        if (hit) sum = add(sum, widen(columns[tap * s.positions() + place]));
    }
    return sum;
}

TaskResult bind_reference(Col2ImInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    return make_task([s = *shapes, type = args.inputs[0]->dtype](void* const* a, runtime::RunContext const&) {
        visit_numeric(type, [&](auto tag) {
            using T = typename decltype(tag)::type;
            auto* x = static_cast<T const*>(a[0]);
            auto* y = static_cast<T*>(a[1]);
            for (int64_t n = 0; n < s.pictures; ++n, x += s.taps() * s.positions())
                for (int64_t i = 0; i < s.plane(); ++i, ++y) {
                    int64_t const at[]{i / (s.size[1] * s.size[2]), i / s.size[2] % s.size[1], i % s.size[2]};
                    *y = narrow<T>(gathered(s, x, at));
                }
        });
    });
}

/// Places [first, end) of an axis where tap `part` lies inside the picture.
struct Span {
    int64_t first, end, start;  ///< start: element that place 0 hits
    Span(Shapes const& s, int axis, int64_t part) : start(part * s.dilation[axis] - s.pad[axis]) {
        auto up = [&](int64_t x) { return x <= 0 ? 0 : (x + s.stride[axis] - 1) / s.stride[axis]; };
        first = up(-start), end = std::min(s.places[axis], up(s.size[axis] - start));
    }
};

/// Adds row by row what one tap collected.
template <class T>
void add_tap(Shapes const& s, int64_t tap, T const* column, T* y) {
    Span d(s, 0, tap / (s.kernel[1] * s.kernel[2])), h(s, 1, tap / s.kernel[2] % s.kernel[1]),
        w(s, 2, tap % s.kernel[2]);
    for (auto z = d.first; z < d.end; ++z)
        for (auto i = h.first; i < h.end; ++i) {
            auto* from = column + (z * s.places[1] + i) * s.places[2];
            auto* to = y + ((d.start + z * s.stride[0]) * s.size[1] + h.start + i * s.stride[1]) * s.size[2] + w.start;
            if (s.stride[2] == 1)
                for (auto j = w.first; j < w.end; ++j) to[j] += from[j];
            else
                for (auto j = w.first; j < w.end; ++j) to[j * s.stride[2]] += from[j];
        }
}

template <class T>
TaskResult make_rows(Shapes const& shapes) {
    return make_task([s = shapes](void* const* a, runtime::RunContext const& context) {
        auto ns = static_cast<double>(s.plane() + s.taps() * s.positions());
        movement::for_ranges(context.pool, s.pictures, ns, [&](int64_t begin, int64_t end) {
            for (auto n = begin; n < end; ++n) {
                auto* y = static_cast<T*>(a[1]) + n * s.plane();
                std::fill(y, y + s.plane(), T(0));
                for (int64_t tap = 0; tap < s.taps(); ++tap)
                    add_tap(s, tap, static_cast<T const*>(a[0]) + (n * s.taps() + tap) * s.positions(), y);
            }
        });
    });
}

TaskResult bind_rows(Col2ImInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    return args.inputs[0]->dtype == DataType::F32 ? make_rows<float>(*shapes) : make_rows<double>(*shapes);
}

#if RG_X86
int64_t ceil_div(int64_t a, int64_t b) { return a <= 0 ? -(-a / b) : (a + b - 1) / b; }

/// Lines [begin, end) at depth `depth` of a picture; see `col2im_band.h`.
struct Band {
    Shapes const& s;
    float const* columns;
    float* lines;  ///< of `line` floats each
    int64_t line, depth, begin, end;

    void add_all() const {
        std::fill_n(lines, (end - begin) * line, 0.f);
        for (int64_t part = 0; part < s.kernel[0]; ++part) {
            auto from = depth + s.pad[0] - part * s.dilation[0];
            if (from < 0 || from % s.stride[0] || from / s.stride[0] >= s.places[0]) continue;
            for (int64_t row = 0; row < s.kernel[1]; ++row) add_row(part, from / s.stride[0], row);
        }
    }

private:
    void add_row(int64_t part, int64_t place, int64_t row) const {
        Span span(s, 1, row);
        auto first = std::max(span.first, ceil_div(begin - span.start, s.stride[1])),
             last = std::min(span.end, ceil_div(end - span.start, s.stride[1]));
        if (first >= last) return;
        auto const stride = s.stride[2], room = (s.size[2] + stride - 1) / stride;
        for (int64_t tap = 0; tap < s.kernel[2]; ++tap) {
            Span places(s, 2, tap);
            if (places.first >= places.end) continue;
            auto element = places.start + places.first * stride;
            auto index = (part * s.kernel[1] + row) * s.kernel[2] + tap;
            add_tap_avx2(
                {columns + index * s.positions() + (place * s.places[1] + first) * s.places[2] + places.first,
                 lines + (span.start + first * s.stride[1] - begin) * line + element % stride * room + element / stride,
                 s.places[2], s.stride[1] * line, last - first, places.end - places.first});
        }
    }
};

/// Whether windows lie side by side, so that one place of one tap is an element.
bool is_tiled(Shapes const& s) {
    for (int axis = 0; axis < 3; ++axis)
        if (s.kernel[axis] != s.stride[axis] || (s.kernel[axis] > 1 && s.dilation[axis] != 1) || s.pad[axis] ||
            s.places[axis] * s.stride[axis] != s.size[axis])
            return false;
    return true;
}

TaskResult bind_tiles(Shapes const& shapes) {
    return make_task([s = shapes](void* const* a, runtime::RunContext const& context) {
        auto lines = s.pictures * s.size[0] * s.size[1];
        movement::for_ranges(
            context.pool, lines, 5 + 0.3 * static_cast<double>(s.size[2]), [&](int64_t first, int64_t last) {
                for (auto line = first; line < last; ++line) {
                    auto i = line % s.size[1], z = line / s.size[1] % s.size[0], picture = line / s.size[1] / s.size[0];
                    auto row = (picture * s.kernel[0] + z % s.stride[0]) * s.kernel[1] + i % s.stride[1];
                    auto place = (z / s.stride[0] * s.places[1] + i / s.stride[1]) * s.places[2];
                    auto* from = static_cast<float const*>(a[0]) + row * s.kernel[2] * s.positions() + place;
                    weave_phases_avx2(from, s.positions(), s.size[2], s.stride[2],
                                      static_cast<float*>(a[1]) + line * s.size[2]);
                }
            });
    });
}

TaskResult bind_bands(Col2ImInfo const& info, BindArgs const& args, Isa isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    if (is_tiled(*shapes)) return bind_tiles(*shapes);
    auto const stride = shapes->stride[2];
    if (stride > kCol2ImBand) return bind_rows(info, args, isa);
    auto line = stride == 1 ? shapes->size[2] : ceil_div(shapes->size[2], stride) * stride;
    if (stride > 1 && line > kCol2ImBand) return bind_rows(info, args, isa);
    return make_task([s = *shapes, line](void* const* a, runtime::RunContext const& context) {
        auto height = std::clamp<int64_t>(kCol2ImBand / std::max<int64_t>(1, line), 1, std::max<int64_t>(1, s.size[1]));
        auto bands = ceil_div(s.size[1], height), items = s.pictures * s.size[0] * bands;
        auto ns = static_cast<double>(s.plane() + s.taps() * s.positions()) /
                  (5. * static_cast<double>(std::max<int64_t>(1, s.size[0] * bands)));
        movement::for_ranges(context.pool, items, ns, [&](int64_t first, int64_t last) {
            float scratch[kCol2ImBand];
            for (auto item = first; item < last; ++item) {
                auto picture = item / bands / s.size[0], depth = item / bands % s.size[0];
                auto begin = item % bands * height, end = std::min(begin + height, s.size[1]);
                auto* y = static_cast<float*>(a[1]) + ((picture * s.size[0] + depth) * s.size[1] + begin) * s.size[2];
                auto* columns = static_cast<float const*>(a[0]) + picture * s.taps() * s.positions();
                auto* lines = s.stride[2] == 1 ? y : scratch;
                Band{s, columns, lines, line, depth, begin, end}.add_all();
                for (auto i = begin; lines == scratch && i < end; ++i)
                    weave_phases_avx2(scratch + (i - begin) * line, line / s.stride[2], s.size[2], s.stride[2],
                                      y + (i - begin) * s.size[2]);
            }
        });
    });
}
#endif

}  // namespace

movement::KernelResult col2im_bands(Col2ImInfo const& info, Request const& request) {
    if (auto no = movement::refuse(request)) return Err{*no};
    if (auto type = request.inputs[0].dtype; type != DataType::F32)
        return Err{Rejection{"input of " + std::string(name_of(type)) + ", expected f32"}};
#if RG_X86
    if (request.isa >= Isa::Avx2)
        return movement::KernelResult(std::make_unique<movement::InfoKernel<Col2ImInfo>>(
            info, movement::make_id("col2im", "bands", request, name_of(Isa::Avx2)), Isa::Avx2, bind_bands));
#endif
    return Err{Rejection{"needs avx2, allowed is " + std::string(name_of(request.isa))}};
}

movement::KernelResult col2im_rows(Col2ImInfo const& info, Request const& request) {
    if (auto no = movement::refuse(request)) return Err{*no};
    if (auto type = request.inputs[0].dtype; type != DataType::F32 && type != DataType::F64)
        return Err{Rejection{"input of " + std::string(name_of(type)) + ", expected f32 or f64"}};
    return movement::make_kernel(info, "col2im", "rows", request, bind_rows);
}

movement::KernelResult col2im_reference(Col2ImInfo const& info, Request const& request) {
    if (auto no = movement::refuse(request)) return Err{*no};
    if (!is_any_numeric(request.inputs[0].dtype))
        return Err{Rejection{"input of " + std::string(name_of(request.inputs[0].dtype)) + ", expected numbers"}};
    return movement::make_kernel(info, "col2im", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
