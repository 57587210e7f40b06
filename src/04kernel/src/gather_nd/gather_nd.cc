#include "gather_nd/gather_nd.h"

#include "cuda/movement_kernels.h"
#include "movement/indices.h"

namespace refactor::kernel {

using namespace movement;

std::string GatherNDInfo::attributes() const { return "batch_dims=" + std::to_string(batch_dims); }

Candidates candidates(GatherNDInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("gather_nd:nvidia:nvrtc", cuda::gather_nd_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "gather_nd/gather_nd_kernels.inc"
#undef RG_KERNEL
    return result;
}

namespace {

/// y[b, i, :] = x[b, indices[b, i, 0], …, indices[b, i, depth - 1], :] with rows of `row` bytes.
struct Shapes {
    IndexedAxes axes;  ///< strides in bytes
    int64_t batches, batch_bytes, tuples, depth, row;
};

Result<Shapes, Rejection> shapes_of(GatherNDInfo const& info, BindArgs const& args) {
    auto const &x = *args.inputs[0], &indices = *args.inputs[1], &y = *args.outputs[0];
    auto b = info.batch_dims, rank = static_cast<int64_t>(x.dims.size()),
         index_rank = static_cast<int64_t>(indices.dims.size());
    auto depth = index_rank ? indices.dims.back() : 0;
    bool fits = b >= 0 && index_rank > b && depth >= 1 && b + depth <= rank;
    for (int64_t i = 0; fits && i < b; ++i) fits = x.dims[i] == indices.dims[i];
    if (!fits)
        return Err{Rejection{"input " + to_string(x.dims) + ", indices " + to_string(indices.dims) + ", batch_dims " +
                             std::to_string(b)}};
    Shapes s{};
    auto strides = strides_of(x.dims);
    auto bytes = element_bytes(x.dtype);
    s.axes = {"GatherND", indices.dtype, b, {}, {}};
    for (auto i = b; i < b + depth; ++i)
        s.axes.sizes.push_back(x.dims[i]), s.axes.strides.push_back(strides[i] * bytes);
    s.batches = count_of(x.dims, 0, b);
    s.batch_bytes = count_of(x.dims, b, rank) * bytes;
    s.tuples = count_of(indices.dims, b, index_rank - 1);
    s.depth = depth;
    s.row = count_of(x.dims, b + depth, rank) * bytes;
    if (s.batches * s.tuples * s.row != y.count() * bytes)
        return Err{Rejection{"output " + to_string(y.dims) + " for input " + to_string(x.dims) + " and indices " +
                             to_string(indices.dims)}};
    return s;
}

TaskResult bind_rows(GatherNDInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    auto block = tuples_together(shapes->row), blocks = (shapes->tuples + block - 1) / block;
    auto copy = copy_rows_of(shapes->row);
    return make_task([=, s = *shapes](void* const* a, runtime::RunContext const& c) {
        auto* x = static_cast<std::byte const*>(a[0]);
        auto* y = static_cast<std::byte*>(a[2]);
        auto bytes = s.batches * s.tuples * s.row;
        parallel_bytes(c.pool, s.batches * blocks, bytes, [&](int64_t begin, int64_t end) {
            int64_t from[kOffsets];
            for (auto unit = begin; unit < end; ++unit) {
                auto batch = unit / blocks, first = unit % blocks * block, count = std::min(block, s.tuples - first);
                first += batch * s.tuples;
                std::fill_n(from, count, batch * s.batch_bytes);
                add_offsets(s.axes, a[1], first, count, from);
                copy(x, from, count, s.row, y + first * s.row);
            }
        });
    });
}

/// Offset in bytes of the row that tuple `t` (counted over all batches) names.
int64_t row_offset(Shapes const& s, void const* indices, int64_t t) {
    auto offset = t / s.tuples * s.batch_bytes;
    for (int64_t i = 0; i < s.depth; ++i) {
        auto position = t * s.depth + i;
        auto index = index_at(indices, s.axes.type, position);
        offset += checked_index("GatherND", index, position, s.axes.first + i, s.axes.sizes[i]) * s.axes.strides[i];
    }
    return offset;
}

/// Byte by byte.
TaskResult bind_reference(GatherNDInfo const& info, BindArgs const& args, Isa) {
    auto shapes = shapes_of(info, args);
    if (!shapes) return Err{shapes.error()};
    return make_task([s = *shapes](void* const* a, runtime::RunContext const&) {
        auto* y = static_cast<char*>(a[2]);
        for (int64_t t = 0; t < s.batches * s.tuples; ++t)
            for (int64_t b = 0; b < s.row; ++b) *y++ = static_cast<char*>(a[0])[row_offset(s, a[1], t) + b];
    });
}

std::optional<Rejection> refuse_indices(Request const& request) {
    if (auto no = refuse(request, {.min_inputs = 2, .max_inputs = 2})) return no;
    if (is_index(request.inputs[1].dtype)) return std::nullopt;
    return Rejection{"indices of " + std::string(name_of(request.inputs[1].dtype)) + ", expected i32 or i64"};
}

}  // namespace

KernelResult gather_nd_rows(GatherNDInfo const& info, Request const& request) {
    if (auto no = refuse_indices(request)) return Err{*no};
    return make_kernel(info, "gather_nd", "rows", request, bind_rows);
}

KernelResult gather_nd_reference(GatherNDInfo const& info, Request const& request) {
    if (auto no = refuse_indices(request)) return Err{*no};
    return make_kernel(info, "gather_nd", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
