#include "pad/pad.h"

#include "common/half.h"
#include "cuda/movement_kernels.h"
#include "pad/pad_shapes.h"

namespace refactor::kernel {

using namespace movement;
using namespace padding;

std::string PadInfo::attributes() const {
    constexpr char const* kNames[] = {"constant", "reflect", "edge", "wrap"};
    return std::string("mode=") + kNames[static_cast<int>(mode)];
}

Candidates candidates(PadInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("pad:nvidia:nvrtc", cuda::pad_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "pad/pad_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

Result<Shapes, Rejection> shapes_of(PadInfo const& info, BindArgs const& args) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    auto rank = x.dims.size();
    if (y.dims.size() != rank || args.params.size() != rank)
        return Err{Rejection{"input " + to_string(x.dims) + ", output " + to_string(y.dims) + ", begins " +
                             to_string(args.params) + ": expected one of each for every axis"}};
    if (info.mode != PadMode::Constant && y.count() > 0 && x.count() == 0)
        return Err{Rejection{"input " + to_string(x.dims) + " has no elements to repeat"}};
    Dims begins(args.params.begin(), args.params.end());
    return Shapes{info.mode,
                  x.dims,
                  y.dims,
                  begins,
                  strides_of(x.dims),
                  element_bytes(x.dtype),
                  args.inputs.size() > 1 && args.inputs[1]};
}

/// The padding value's address: input 1 or zero.
std::byte const* value_of(Shapes const& s, void* const* a) {
    static constexpr std::byte kZero[16]{};
    return s.has_value && s.mode == PadMode::Constant && a[1] ? static_cast<std::byte const*>(a[1]) : kZero;
}

/// One row of the innermost axis; `x` is the input's row, or null if the whole row lies outside.
template <class T>
void pad_row(Shapes const& s, std::byte const* x, T value, std::byte* y) {
    constexpr int64_t kBytes = sizeof(T);
    if (!x) return fill_words(y, value, s.out.back());
    auto edge = [&](std::vector<int64_t> const& sources, int64_t begin, int64_t end) {
        auto* to = y + begin * kBytes;
        if (s.mode == PadMode::Constant) return fill_words(to, value, end - begin);
        for (auto at : sources) store(to, load<T>(x + at * kBytes)), to += kBytes;
    };
    edge(s.front, 0, s.first);
    std::memcpy(y + s.first * kBytes, x + (s.first - s.begins.back()) * kBytes, (s.last - s.first) * kBytes);
    edge(s.behind, s.last, s.out.back());
}

/// Rows [begin, end), in runs along the axis before the last.
template <class T>
void pad_rows_of(Shapes const& s, std::byte const* x, T value, std::byte* y, int64_t begin, int64_t end) {
    auto const row_bytes = s.out.back() * int64_t{sizeof(T)}, run = static_cast<int64_t>(s.rows.size());
    if (s.in.size() == 1) return pad_row<T>(s, x, value, y);
    auto outer = s.in.size() - 2;
    for (auto row = begin; row < end;) {
        int64_t from = 0, rest = row / run, at = row % run;
        bool inside = true;
        for (auto i = outer; i-- > 0; rest /= s.out[i]) {
            auto source = source_of(s.mode, rest % s.out[i] - s.begins[i], s.in[i]);
            inside = inside && source >= 0;
            from += source * s.strides[i];
        }
        while (at < run && row < end) {
            bool shown = inside && s.rows[at] >= 0;
            auto const* source = shown ? x + (from + s.rows[at]) * int64_t{sizeof(T)} : nullptr;
            auto count = shown && s.keeps(outer + 1) ? s.rows_together(at, std::min(run, at + end - row)) : 1;
            if (count > 1)
                std::memcpy(y + row * row_bytes, source, static_cast<size_t>(count * row_bytes));
            else
                pad_row<T>(s, source, value, y + row * row_bytes);
            at += count, row += count;
        }
    }
}

TaskResult bind_rows(PadInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    if (shapes->in.empty()) shapes->in = shapes->out = {1}, shapes->begins = {0}, shapes->strides = {1};
    shapes->widen_elements();
    shapes->merge_axes();
    shapes->find_sources();
    auto output = args.inputs.size();
    return make_task([s = *shapes, output](void* const* a, runtime::RunContext const& c) {
        auto rows = count_of(s.out, 0, s.out.size() - 1), bytes = rows * s.out.back() * s.bytes;
        if (bytes == 0) return;
        auto *x = static_cast<std::byte const*>(a[0]), *value = value_of(s, a);
        auto* y = static_cast<std::byte*>(a[output]);
        parallel_bytes(c.pool, rows, bytes, [&](int64_t begin, int64_t end) {
            with_word(s.bytes, [&](auto word) {
                using T = decltype(word);
                pad_rows_of<T>(s, x, load<T>(value), y, begin, end);
            });
        });
    });
}

/// One position of a block of channels.
template <class T, int kBlock>
struct Position {
    T lanes[kBlock];
};
/// The padding value as an element of the padded tensor: f32, or the bits of bf16.
template <class T>
T element_of(std::byte const* value, DataType type) {
    if constexpr (sizeof(T) == 2)
        if (type == DataType::F32) return bf16_from_f32(load<float>(value));
    return load<T>(value);
}

/// The spatial axes of an image in blocks of channels, whose other axes stay as they are.
Result<Shapes, Rejection> shapes_of_planes(PadInfo const& info, BindArgs const& args) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return shapes;
    auto& s = *shapes;
    for (size_t axis : {0u, 1u})
        if (s.begins[axis] != 0 || s.in[axis] != s.out[axis])
            return Err{Rejection{"pads axis " + std::to_string(axis) + ", which is none of the positions"}};
    s.in = Dims(s.in.begin() + 2, s.in.end()), s.out = Dims(s.out.begin() + 2, s.out.end());
    s.begins = Dims(s.begins.begin() + 2, s.begins.end()), s.strides = strides_of(s.in);
    s.find_sources();
    return shapes;
}

template <class Element, int kBlock>
TaskResult bind_blocks(PadInfo const& info, BindArgs const& args) {
    auto shapes = shapes_of_planes(info, args);
    if (!shapes) return Err{shapes.error()};
    auto output = args.inputs.size();
    auto images = args.inputs[0]->dims[0], channels = args.inputs[0]->dims[1];
    auto type = shapes->has_value ? args.inputs[1]->dtype : args.inputs[0]->dtype;
    return make_task([s = *shapes, output, images, channels, type](void* const* a, runtime::RunContext const& c) {
        using T = Position<Element, kBlock>;
        auto const blocks = (channels + kBlock - 1) / kBlock, rows = count_of(s.out, 0, s.out.size() - 1);
        auto const from = count_of(s.in, 0, s.in.size()) * int64_t{sizeof(T)},
                   to = rows * s.out.back() * int64_t{sizeof(T)};
        auto const *x = static_cast<std::byte const*>(a[0]), *value = value_of(s, a);
        auto* y = static_cast<std::byte*>(a[output]);
        c.pool.parallel_for(images * blocks, [&](int64_t plane, int) {
            T around{};
            std::fill_n(around.lanes, std::min<int64_t>(kBlock, channels - plane % blocks * kBlock),
                        element_of<Element>(value, type));
            pad_rows_of<T>(s, x + plane * from, around, y + plane * to, 0, rows);
        });
    });
}

TaskResult bind_blocked(PadInfo const& info, BindArgs const& args, Isa) {
    switch (args.inputs[0]->layout) {
        case Layout::Blocked32:
            return bind_blocks<uint16_t, 32>(info, args);
        case Layout::Blocked16:
            return bind_blocks<float, 16>(info, args);
        default:
            return bind_blocks<float, 8>(info, args);
    }
}

TaskResult bind_reference(PadInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    auto output = args.inputs.size();
    return make_task([s = *shapes, output](void* const* a, runtime::RunContext const&) {
        for_each_coordinate(s.out, [&](Dims const& at, int64_t index) {
            auto* from = static_cast<std::byte const*>(a[0]);
            for (size_t i = 0; i < at.size() && from; ++i) {
                auto source = source_of(s.mode, at[i] - s.begins[i], s.in[i]);
                from = source < 0 ? nullptr : from + source * s.strides[i] * s.bytes;
            }
            std::memcpy(static_cast<std::byte*>(a[output]) + index * s.bytes, from ? from : value_of(s, a), s.bytes);
        });
    });
}

std::optional<Rejection> refuse_pad(Request const& request) {
    if (auto no = refuse(request, {.max_inputs = 2})) return no;
    if (request.inputs.size() > 1 && !request.inputs[1].absent() && request.inputs[1].dtype != request.inputs[0].dtype)
        return Rejection{"constant of " + std::string(name_of(request.inputs[1].dtype)) + ", expected " +
                         std::string(name_of(request.inputs[0].dtype))};
    return std::nullopt;
}

}  // namespace

KernelResult pad_rows(PadInfo const& info, Request const& request) {
    if (auto no = refuse_pad(request)) return Err{*no};
    return make_kernel(info, "pad", "rows", request, bind_rows);
}

KernelResult pad_blocked(PadInfo const& info, Request const& request) {
    std::vector<Operand> inputs(request.inputs.begin(), request.inputs.end()),
        outputs(request.outputs.begin(), request.outputs.end());
    auto const layout = inputs[0].layout;
    auto const type = layout == Layout::Blocked32 ? DataType::BF16 : DataType::F32;
    if (layout == Layout::Plain || outputs[0].layout != layout || inputs[0].dtype != type)
        return Err{Rejection{"is for f32, or 32 channels of bf16, in the same blocks of channels on both sides"}};
    if (type == DataType::BF16 && inputs.size() > 1 && inputs[1].dtype == DataType::F32) inputs[1].dtype = type;
    auto plain = request;
    inputs[0].layout = outputs[0].layout = Layout::Plain;
    plain.inputs = inputs, plain.outputs = outputs;
    if (auto no = refuse_pad(plain)) return Err{*no};
    return make_kernel(info, "pad", "blocked", request, bind_blocked);
}

KernelResult pad_reference(PadInfo const& info, Request const& request) {
    if (auto no = refuse_pad(request)) return Err{*no};
    return make_kernel(info, "pad", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
