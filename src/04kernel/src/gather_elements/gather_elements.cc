#include "gather_elements/gather_elements.h"

#include "cuda/movement_kernels.h"
#include "movement/indices.h"

namespace refactor::kernel {

using namespace movement;

std::string GatherElementsInfo::attributes() const { return "axis=" + std::to_string(axis); }

Candidates candidates(GatherElementsInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("gather_elements:nvidia:nvrtc", cuda::gather_elements_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "gather_elements/gather_elements_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

struct Shapes {
    Dims in, out, strides;
    int64_t axis, bytes;
    DataType index;

    /// Without axes of one element, which make for short rows. Returns the number of the indexed axis.
    int64_t drop_ones() {
        auto kept = axis;
        for (auto i = std::ssize(in); i-- > 0;) {
            if (i == axis || in[static_cast<size_t>(i)] != 1 || out[static_cast<size_t>(i)] != 1) continue;
            for (auto* list : {&in, &out, &strides}) list->erase(list->begin() + i);
            kept -= i < axis ? 1 : 0;
        }
        return kept;
    }
};

Result<Shapes, Rejection> shapes_of(GatherElementsInfo const& info, BindArgs const& args) {
    auto const &x = *args.inputs[0], &indices = *args.inputs[1], &y = *args.outputs[0];
    auto rank = static_cast<int64_t>(x.dims.size());
    bool fits = info.axis >= 0 && info.axis < rank && indices.dims == y.dims && indices.dims.size() == x.dims.size();
    for (int64_t i = 0; fits && i < rank; ++i) fits = i == info.axis || y.dims[i] <= x.dims[i];
    if (!fits)
        return Err{Rejection{"axis " + std::to_string(info.axis) + ", input " + to_string(x.dims) + ", indices " +
                             to_string(indices.dims) + ", output " + to_string(y.dims)}};
    return Shapes{x.dims, y.dims, strides_of(x.dims), info.axis, element_bytes(x.dtype), indices.dtype};
}

/// y[…, i, …] = x[…, indices[…, i, …], …], rows [row, end) of the last axis one after the other.
struct Rows {
    Shapes shapes;
    IndexedAxes axis;
    int64_t along;  ///< bytes from one element of a row to where the next one is looked up
    LookUp look_up;

    explicit Rows(Shapes const& s)
        : shapes(s),
          axis{"GatherElements", s.index, s.axis, {s.in[s.axis]}, {s.strides[s.axis] * s.bytes}},
          look_up(look_up_of(s.bytes, s.index)) {
        shapes.axis = shapes.drop_ones();
        along = shapes.axis + 1 == std::ssize(shapes.out) ? 0 : s.bytes;
    }

    /// Bytes to where the row begins, without what the indices add.
    int64_t offset(int64_t row) const {
        int64_t elements = 0;
        for (auto i = static_cast<int64_t>(shapes.out.size()) - 1; i-- > 0; row /= shapes.out[i])
            if (i != shapes.axis) elements += row % shapes.out[i] * shapes.strides[i];
        return elements * shapes.bytes;
    }

    void gather(std::byte const* x, void const* indices, std::byte* y, int64_t row, int64_t end) const {
        for (auto n = shapes.out.back(); row < end; ++row)
            look_up(axis, x + offset(row), along, indices, row * n, n, y + row * n * shapes.bytes);
    }
};

TaskResult bind_direct(GatherElementsInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    return make_task([r = Rows(*shapes)](void* const* a, runtime::RunContext const& c) {
        auto rows = count_of(r.shapes.out, 0, r.shapes.out.size() - 1), n = r.shapes.out.back();
        auto read = bits_of(r.shapes.index) / 8;
        parallel_bytes(c.pool, rows, rows * n * (r.shapes.bytes + read), [&](int64_t begin, int64_t end) {
            r.gather(static_cast<std::byte*>(a[0]), a[1], static_cast<std::byte*>(a[2]), begin, end);
        });
    });
}

TaskResult bind_reference(GatherElementsInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    return make_task([s = *shapes](void* const* a, runtime::RunContext const&) {
        for_each_coordinate(s.out, [&](Dims const& at, int64_t position) {
            int64_t from = 0;
            for (int64_t i = 0; i < static_cast<int64_t>(at.size()); ++i) {
                auto coordinate = at[i];
                if (i == s.axis)
                    coordinate =
                        checked_index("GatherElements", index_at(a[1], s.index, position), position, i, s.in[i]);
                from += coordinate * s.strides[i];
            }
            std::memcpy(static_cast<char*>(a[2]) + position * s.bytes, static_cast<char*>(a[0]) + from * s.bytes,
                        s.bytes);
        });
    });
}

std::optional<Rejection> refuse_indices(Request const& request) {
    if (auto no = refuse(request, {.min_inputs = 2, .max_inputs = 2})) return no;
    if (is_index(request.inputs[1].dtype)) return std::nullopt;
    return Rejection{"indices of " + std::string(name_of(request.inputs[1].dtype)) + ", expected i32 or i64"};
}

}  // namespace

KernelResult gather_elements_direct(GatherElementsInfo const& info, Request const& request) {
    if (auto no = refuse_indices(request)) return Err{*no};
    return make_kernel(info, "gather_elements", "direct", request, bind_direct);
}

KernelResult gather_elements_reference(GatherElementsInfo const& info, Request const& request) {
    if (auto no = refuse_indices(request)) return Err{*no};
    return make_kernel(info, "gather_elements", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
