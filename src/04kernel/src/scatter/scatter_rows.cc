#include "kernel/kernel.h"
#include "mem_manager/blob.h"
#include "movement/indices.h"
#include "scatter/put.h"
#include "scatter/scatter.h"

namespace refactor::kernel {

using namespace movement;

namespace {

/// y[indices[i, 0], …, indices[i, depth - 1], :] = updates[i, :], in the order of i.
struct Rows {
    IndexedAxes axes;  ///< strides in elements of `put`
    Put put;
    int64_t tuples, row;
    int64_t columns;  ///< parts that rows are worth cutting into, one for each thread
};

Rows rows_of(ScatterInfo const& info, BindArgs const& args, Isa isa) {
    auto const &x = *args.inputs[0], &indices = *args.inputs[1];
    auto depth = indices.dims.back();
    Rows r{indexed_axes(info, x, indices), Put::of(info.reduction, x.dtype, isa), indices.count() / depth,
           count_of(x.dims, depth, x.dims.size()), 1};
    auto bytes = r.row * r.put.bytes;
    if (info.reduction == ScatterReduction::None && r.row > 1 && is_word(bytes)) {
        r.put = Put::words(bytes);
        for (auto& stride : r.axes.strides) stride /= r.row;
        r.row = 1;
    }
    // Each thread finds the offsets of all rows, which takes as long as some lines of them.
    constexpr int64_t kLeast = 256, kLeastOfAll = 256 << 10;
    if (r.tuples * bytes >= kLeastOfAll) r.columns = std::clamp<int64_t>(bytes / kLeast, 1, args.threads);
    return r;
}

/// The columns [begin, end) of all rows.
void put_columns(Rows const& r, std::byte* y, void const* indices, std::byte const* updates, int64_t begin,
                 int64_t end) {
    int64_t to[kOffsets];
    for (int64_t first = 0; first < r.tuples; first += kOffsets) {
        auto count = std::min(kOffsets, r.tuples - first);
        std::fill_n(to, count, begin);
        add_offsets(r.axes, indices, first, count, to);
        auto const* from = updates + (first * r.row + begin) * r.put.bytes;
        if (r.row == 1)
            r.put.runs(y, to, count, from);
        else
            r.put.rows(y, to, count, end - begin, from, r.row);
    }
}

TaskResult bind_rows(ScatterInfo const& info, BindArgs const& args, Isa isa) {
    if (auto no = refuse_shapes(info, args)) return Err{*no};
    auto bytes = args.inputs[0]->count() * element_bytes(args.inputs[0]->dtype);
    auto body = [r = rows_of(info, args, isa), bytes](void* const* a, runtime::RunContext const& c) {
        copy_data(a, bytes, c.pool);
        if (r.tuples * r.row == 0) return;
        c.pool.parallel_for(r.columns, [&](int64_t i, int) {
            put_columns(r, static_cast<std::byte*>(a[3]), a[1], static_cast<std::byte*>(a[2]), r.row * i / r.columns,
                        r.row * (i + 1) / r.columns);
        });
    };
    return make_task(body, 1);
}

}  // namespace

KernelResult scatter_rows(ScatterInfo const& info, Request const& request) {
    if (auto no = refuse_operands(info, request)) return Err{*no};
    if (info.axis >= 0) return Err{Rejection{"ScatterElements, expected ScatterND"}};
    return make_kernel(info, "scatter", "rows", request, bind_rows);
}

}  // namespace refactor::kernel
