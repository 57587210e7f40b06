#include "scatter/scatter.h"

#include "common/half.h"
#include "cuda/movement_kernels.h"
#include "movement/indices.h"
#include "scatter/combine_rows.h"

#include <algorithm>

namespace refactor::kernel {

using namespace movement;

std::string ScatterInfo::attributes() const {
    constexpr char const* kNames[] = {"none", "add", "mul", "min", "max"};
    return "axis=" + std::to_string(axis) + ",reduction=" + kNames[static_cast<int>(reduction)];
}

Candidates candidates(ScatterInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("scatter:nvidia:nvrtc", cuda::scatter_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "scatter/scatter_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

/// One element after the other, in the order of the updates: `y[i] = combine(y[i], update)`.
using Combine = void (*)(std::byte* y, std::byte const* updates, int64_t count);
/// The same of elements at these offsets.
using CombineAt = void (*)(std::byte* y, int64_t const* to, std::byte const* updates, int64_t count);

template <class T>
T reduce(ScatterReduction reduction, T a, T b) {
    switch (reduction) {
        case ScatterReduction::Min:
            return a != a || a < b ? a : b;
        case ScatterReduction::Max:
            return a != a || a > b ? a : b;
        default:
            break;
    }
    if constexpr (std::is_integral_v<T>) {
        auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
        return static_cast<T>(reduction == ScatterReduction::Add ? x + y : x * y);
    } else {
        return reduction == ScatterReduction::Add ? a + b : a * b;
    }
}

template <class T, ScatterReduction kReduction>
struct Element {
    static constexpr int64_t kBytes = sizeof(T);
    static void combine(std::byte* y, std::byte const* update) {
        store(y, reduce(kReduction, load<T>(y), load<T>(update)));
    }
};

/// f16 or bf16 held in 16 bits, combined in f32.
template <bool kF16>
struct Half {
    uint16_t bits;
};
template <bool kF16, ScatterReduction kReduction>
struct Element<Half<kF16>, kReduction> {
    static constexpr int64_t kBytes = 2;
    static void combine(std::byte* y, std::byte const* update) {
        auto widen = kF16 ? f32_from_f16 : f32_from_bf16;
        auto narrow = kF16 ? f16_from_f32 : bf16_from_f32;
        store(y, narrow(reduce(kReduction, widen(load<uint16_t>(y)), widen(load<uint16_t>(update)))));
    }
};

struct Combines {
    Combine rows = nullptr;
    CombineAt elements = nullptr;
};
template <class T, ScatterReduction kReduction>
constexpr Combines kCombines = [] {
    using E = Element<T, kReduction>;
    return Combines{[](std::byte* y, std::byte const* updates, int64_t count) {
                        for (int64_t i = 0; i < count; ++i) E::combine(y + i * E::kBytes, updates + i * E::kBytes);
                    },
                    [](std::byte* y, int64_t const* to, std::byte const* updates, int64_t count) {
                        for (int64_t i = 0; i < count; ++i) E::combine(y + to[i] * E::kBytes, updates + i * E::kBytes);
                    }};
}();

template <ScatterReduction kReduction>
Combines combines_of(DataType type) {
    switch (type) {
        case DataType::F32:
            return kCombines<float, kReduction>;
        case DataType::F64:
            return kCombines<double, kReduction>;
        case DataType::F16:
            return kCombines<Half<true>, kReduction>;
        case DataType::BF16:
            return kCombines<Half<false>, kReduction>;
        case DataType::I8:
            return kCombines<int8_t, kReduction>;
        case DataType::I16:
            return kCombines<int16_t, kReduction>;
        case DataType::I32:
            return kCombines<int32_t, kReduction>;
        case DataType::I64:
            return kCombines<int64_t, kReduction>;
        case DataType::U8:
            return kCombines<uint8_t, kReduction>;
        case DataType::U16:
            return kCombines<uint16_t, kReduction>;
        case DataType::U32:
            return kCombines<uint32_t, kReduction>;
        case DataType::U64:
            return kCombines<uint64_t, kReduction>;
        default:
            return {};
    }
}

Combine combine_of_vectors(ScatterReduction reduction) {
#if RG_X86
    auto const& rows = combine_rows_avx2();
    switch (reduction) {
        case ScatterReduction::Add:
            return rows.add;
        case ScatterReduction::Mul:
            return rows.multiply;
        case ScatterReduction::Min:
            return rows.least;
        case ScatterReduction::Max:
            return rows.largest;
        default:
            break;
    }
#endif
    return nullptr;
}

Combines combines_of(ScatterReduction reduction, DataType type) {
    switch (reduction) {
        case ScatterReduction::Add:
            return combines_of<ScatterReduction::Add>(type);
        case ScatterReduction::Mul:
            return combines_of<ScatterReduction::Mul>(type);
        case ScatterReduction::Min:
            return combines_of<ScatterReduction::Min>(type);
        case ScatterReduction::Max:
            return combines_of<ScatterReduction::Max>(type);
        default:
            return {};
    }
}

Combines combines_of(ScatterReduction reduction, DataType type, Isa isa) {
    auto found = combines_of(reduction, type);
    if (type == DataType::F32 && isa >= Isa::Avx2)
        if (auto vectors = combine_of_vectors(reduction)) found.rows = vectors;
    return found;
}

struct Shapes {
    Dims data, strides, updates, indices;
    int64_t axis, bytes, count;
    IndexedAxes indexed;  ///< strides in elements
    Combines combine;     ///< nulls: overwrite
};

void put(Shapes const& s, std::byte* y, std::byte const* updates, int64_t count) {
    if (s.combine.rows)
        s.combine.rows(y, updates, count);
    else if (count == 1)
        with_word(s.bytes, [&](auto word) { store(y, load<decltype(word)>(updates)); });
    else
        std::memcpy(y, updates, count * s.bytes);
}

/// Puts rows of `row` elements to these offsets (elements); rows that go behind each other, as those of broadcast or
/// counted indices do, at once.
void put_rows(Shapes const& s, std::byte* y, int64_t const* to, int64_t count, int64_t row, std::byte const* updates) {
    for (int64_t i = 0, run; i < count; i += run) {
        for (run = 1; i + run < count && to[i + run] == to[i] + run * row;) ++run;
        put(s, y + to[i] * s.bytes, updates + i * row * s.bytes, run * row);
    }
}

void scatter_elements(Shapes const& s, std::byte* y, void const* indices, std::byte const* updates) {
    auto last = static_cast<int64_t>(s.updates.size()) - 1, n = s.updates[last], along = int64_t{s.axis != last};
    auto outer = s.updates;
    outer[last] = 1;
    for_each_coordinate(outer, [&](Dims const& at, int64_t row) {
        int64_t base = 0, to[kOffsets];
        for (int64_t i = 0; i < last; ++i) base += i == s.axis ? 0 : at[i] * s.strides[i];
        for (int64_t first = 0; first < n; first += kOffsets) {
            auto count = std::min(kOffsets, n - first), position = row * n + first;
            for (int64_t i = 0; i < count; ++i) to[i] = base + (first + i) * along;
            add_offsets(s.indexed, indices, position, count, to);
            // What the first two show; elements of either order are put right by both.
            if (s.combine.elements && count > 1 && to[1] != to[0] + 1)
                s.combine.elements(y, to, updates + position * s.bytes, count);
            else
                put_rows(s, y, to, count, 1, updates + position * s.bytes);
        }
    });
}

void scatter_nd(Shapes const& s, std::byte* y, void const* indices, std::byte const* updates) {
    auto depth = s.indices.back(), tuples = count_of(s.indices, 0, s.indices.size() - 1);
    auto row = count_of(s.data, depth, s.data.size());
    int64_t to[kOffsets];
    for (int64_t first = 0; first < tuples; first += kOffsets) {
        auto count = std::min(kOffsets, tuples - first);
        std::fill_n(to, count, 0);
        add_offsets(s.indexed, indices, first, count, to);
        put_rows(s, y, to, count, row, updates + first * row * s.bytes);
    }
}

/// The axis of ScatterElements, or the first ones, as many as a tuple of ScatterND has numbers.
IndexedAxes indexed_axes(ScatterInfo const& info, TensorDesc const& x, TensorDesc const& indices) {
    bool elements = info.axis >= 0;
    auto first = elements ? info.axis : 0, end = elements ? first + 1 : indices.dims.back();
    auto strides = strides_of(x.dims);
    return {elements ? "ScatterElements" : "ScatterND", indices.dtype, first,
            Dims(x.dims.begin() + first, x.dims.begin() + end), Dims(strides.begin() + first, strides.begin() + end)};
}

std::optional<Rejection> refuse_shapes(ScatterInfo const& info, BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &indices = args.inputs[1]->dims, &updates = args.inputs[2]->dims;
    auto rank = static_cast<int64_t>(x.size());
    bool fits = args.outputs[0]->dims == x;
    if (info.axis >= 0) {
        fits = fits && info.axis < rank && indices == updates && indices.size() == x.size();
        for (int64_t i = 0; fits && i < rank; ++i) fits = i == info.axis || updates[i] <= x[i];
    } else {
        auto depth = indices.empty() ? 0 : indices.back();
        fits = fits && depth >= 1 && depth <= rank;
        fits =
            fits && element_count(updates) == count_of(indices, 0, indices.size() - 1) * count_of(x, depth, x.size());
    }
    if (fits) return std::nullopt;
    return Rejection{"data " + to_string(x) + ", indices " + to_string(indices) + ", updates " + to_string(updates) +
                     ", axis " + std::to_string(info.axis)};
}

TaskResult bind_reference(ScatterInfo const& info, BindArgs const& args, Isa isa) {
    if (auto no = refuse_shapes(info, args)) return Err{*no};
    auto const& x = *args.inputs[0];
    Shapes s{x.dims,
             strides_of(x.dims),
             args.inputs[2]->dims,
             args.inputs[1]->dims,
             info.axis,
             element_bytes(x.dtype),
             x.count(),
             indexed_axes(info, x, *args.inputs[1]),
             combines_of(info.reduction, x.dtype, isa)};
    auto body = [s](void* const* a, runtime::RunContext const& c) {
        auto* y = static_cast<std::byte*>(a[3]);
        if (a[0] != a[3])
            parallel_bytes(c.pool, s.count, s.count * s.bytes, [&](int64_t begin, int64_t end) {
                std::memcpy(y + begin * s.bytes, static_cast<std::byte*>(a[0]) + begin * s.bytes,
                            (end - begin) * s.bytes);
            });
        if (element_count(s.updates) == 0) return;
        (s.axis >= 0 ? scatter_elements : scatter_nd)(s, y, a[1], static_cast<std::byte*>(a[2]));
    };
    return make_task(body, 1);
}

}  // namespace

KernelResult scatter_reference(ScatterInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.min_inputs = 3, .max_inputs = 3})) return Err{*no};
    auto type = request.inputs[0].dtype;
    if (!is_index(request.inputs[1].dtype))
        return Err{Rejection{"indices of " + std::string(name_of(request.inputs[1].dtype)) + ", expected i32 or i64"}};
    if (request.inputs[2].dtype != type)
        return Err{Rejection{"updates of " + std::string(name_of(request.inputs[2].dtype)) + ", expected " +
                             std::string(name_of(type))}};
    if (info.reduction != ScatterReduction::None && !combines_of(info.reduction, type).rows)
        return Err{Rejection{"reduction of " + std::string(name_of(type))}};
    return make_kernel(info, "scatter", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
