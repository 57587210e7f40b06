#include "scatter/scatter.h"

#include "cuda/movement_kernels.h"
#include "scatter/put.h"

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

std::optional<Rejection> refuse_operands(ScatterInfo const& info, Request const& request) {
    if (auto no = refuse(request, {.min_inputs = 3, .max_inputs = 3})) return no;
    auto type = request.inputs[0].dtype, indices = request.inputs[1].dtype, updates = request.inputs[2].dtype;
    if (!is_index(indices)) return Rejection{"indices of " + std::string(name_of(indices)) + ", expected i32 or i64"};
    if (updates != type)
        return Rejection{"updates of " + std::string(name_of(updates)) + ", expected " + std::string(name_of(type))};
    if (!Put::of(info.reduction, type, Isa::Scalar).rows)
        return Rejection{"reduction of " + std::string(name_of(type))};
    return std::nullopt;
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

IndexedAxes indexed_axes(ScatterInfo const& info, TensorDesc const& x, TensorDesc const& indices) {
    bool elements = info.axis >= 0;
    auto first = elements ? info.axis : 0, end = elements ? first + 1 : indices.dims.back();
    auto strides = strides_of(x.dims);
    return {elements ? "ScatterElements" : "ScatterND", indices.dtype, first,
            Dims(x.dims.begin() + first, x.dims.begin() + end), Dims(strides.begin() + first, strides.begin() + end)};
}

void copy_data(void* const* arguments, int64_t bytes, ThreadPool& pool) {
    auto const* x = static_cast<std::byte const*>(arguments[0]);
    auto* y = static_cast<std::byte*>(arguments[3]);
    if (x == y) return;
    parallel_bytes(pool, bytes, bytes, [&](int64_t begin, int64_t end) {
        std::memcpy(y + begin, x + begin, static_cast<size_t>(end - begin));
    });
}

namespace {

struct Shapes {
    Dims updates, strides;  ///< strides of the data
    int64_t axis, tuples, row;
    IndexedAxes indexed;
    Put put;
};

void put_elements(Shapes const& s, std::byte* y, void const* indices, std::byte const* updates) {
    for_each_coordinate(s.updates, [&](Dims const& at, int64_t i) {
        int64_t to = 0;
        for (size_t k = 0; k < at.size(); ++k) to += static_cast<int64_t>(k) == s.axis ? 0 : at[k] * s.strides[k];
        add_offsets(s.indexed, indices, i, 1, &to);
        s.put.elements(y, &to, 1, updates + i * s.put.bytes);
    });
}

void put_rows(Shapes const& s, std::byte* y, void const* indices, std::byte const* updates) {
    for (int64_t t = 0; t < s.tuples; ++t) {
        int64_t to = 0;
        add_offsets(s.indexed, indices, t, 1, &to);
        for (auto i = t * s.row; i < (t + 1) * s.row; ++i, ++to) s.put.elements(y, &to, 1, updates + i * s.put.bytes);
    }
}

/// Element by element.
TaskResult bind_reference(ScatterInfo const& info, BindArgs const& args, Isa) {
    if (auto no = refuse_shapes(info, args)) return Err{*no};
    auto const &x = *args.inputs[0], &updates = *args.inputs[2];
    auto indexed = indexed_axes(info, x, *args.inputs[1]);
    auto row = count_of(x.dims, indexed.sizes.size(), x.dims.size());
    Shapes s{updates.dims,
             strides_of(x.dims),
             info.axis,
             row ? updates.count() / row : 0,
             row,
             std::move(indexed),
             Put::of(info.reduction, x.dtype, Isa::Scalar)};
    auto body = [s, bytes = x.count() * s.put.bytes](void* const* a, runtime::RunContext const& c) {
        copy_data(a, bytes, c.pool);
        (s.axis >= 0 ? put_elements : put_rows)(s, static_cast<std::byte*>(a[3]), a[1], static_cast<std::byte*>(a[2]));
    };
    return make_task(body, 1);
}

}  // namespace

KernelResult scatter_reference(ScatterInfo const& info, Request const& request) {
    if (auto no = refuse_operands(info, request)) return Err{*no};
    return make_kernel(info, "scatter", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
