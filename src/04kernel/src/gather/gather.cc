#include "gather/gather.h"

#include "cuda/movement_kernels.h"
#include "movement/indices.h"

namespace refactor::kernel {

using namespace movement;

std::string GatherInfo::attributes() const { return "axis=" + std::to_string(axis); }

Candidates candidates(GatherInfo const& info, Request const& request) {
    Candidates result;
    if (request.device != "cpu") {
        result.add("gather:nvidia:nvrtc", cuda::gather_nvrtc(info, request));
        return result;
    }
#define RG_KERNEL(op, algorithm) result.add(#op ":cpu:" #algorithm, op##_##algorithm(info, request));
#include "gather/gather_kernels.inc"
#undef RG_KERNEL
    return result;
}

std::optional<Rejection> refuse_gather(Request const& request) {
    if (auto no = refuse(request, {.min_inputs = 2, .max_inputs = 2})) return no;
    if (is_index(request.inputs[1].dtype)) return std::nullopt;
    return Rejection{"indices of " + std::string(name_of(request.inputs[1].dtype)) + ", expected i32 or i64"};
}

namespace {

/// y[o, i, :] = x[o, indices[i], :] with rows of `row` bytes.
struct Sizes {
    int64_t outer, size, count, row;
    IndexedAxes axis;
    int64_t block;  ///< of indices that are looked up together, for all of the outer axes
    int64_t group;  ///< of outer axes whose rows are copied together
    CopyRows copy;
    LookUp look_up;  ///< null if offsets are used more than once, or rows are no words

    int64_t units() const { return outer * ((count + block - 1) / block); }
};

Result<Sizes, Rejection> sizes_of(GatherInfo const& info, BindArgs const& args) {
    auto const &x = *args.inputs[0], &indices = *args.inputs[1], &y = *args.outputs[0];
    auto rank = static_cast<int64_t>(x.dims.size());
    if (info.axis < 0 || info.axis >= rank)
        return Err{Rejection{"axis " + std::to_string(info.axis) + " of an input of rank " + std::to_string(rank)}};
    auto size = x.dims[info.axis], row = count_of(x.dims, info.axis + 1, rank) * element_bytes(x.dtype);
    Sizes s{count_of(x.dims, 0, info.axis),
            size,
            indices.count(),
            row,
            {"Gather", indices.dtype, info.axis, {size}, {row}},
            tuples_together(row),
            1,
            copy_rows_of(row),
            nullptr};
    if (s.count > 0) s.group = std::max<int64_t>(1, s.block / s.count);
    if (s.outer == 1 && is_word(row)) s.look_up = look_up_of(row, indices.dtype);
    if (s.outer * s.count * s.row != y.count() * element_bytes(y.dtype))
        return Err{Rejection{"output " + to_string(y.dims) + " for input " + to_string(x.dims) + " and indices " +
                             to_string(indices.dims)}};
    return s;
}

/// Units are the outer axes of the first block of indices, then those of the second, and so on.
void gather_units(Sizes const& s, std::byte const* x, void const* indices, std::byte* y, int64_t unit, int64_t end) {
    int64_t from[kOffsets];
    while (unit < end) {
        auto first = unit / s.outer * s.block, outer = unit % s.outer, last = std::min(s.outer, outer + end - unit);
        auto count = std::min(s.block, s.count - first);
        unit += last - outer;
        if (s.look_up) {
            s.look_up(s.axis, x, 0, indices, first, count, y + first * s.row);
            continue;
        }
        std::fill_n(from, count, 0);
        add_offsets(s.axis, indices, first, count, from);
        auto step = s.size * s.row, group = std::min(s.group, last - outer);
        for (auto i = count; i < group * count; ++i) from[i] = from[i - count] + step;
        for (; outer < last; outer += group) {
            auto rows = std::min(group, last - outer) * count;
            s.copy(x + outer * step, from, rows, s.row, y + (outer * s.count + first) * s.row);
        }
    }
}

/// Copies bytes, wherever X begins: a table of embeddings is used where its file has it.
class RowsTask final : public runtime::Task {
    Sizes sizes_;

public:
    explicit RowsTask(Sizes const& sizes) : sizes_(sizes) {}
    uint64_t unaligned_inputs() const override { return 1; }
    void run(void* const* a, runtime::RunContext const& context) const override {
        auto const& s = sizes_;
        parallel_bytes(context.pool, s.units(), s.outer * s.count * s.row, [&](int64_t begin, int64_t end) {
            gather_units(s, static_cast<std::byte*>(a[0]), a[1], static_cast<std::byte*>(a[2]), begin, end);
        });
    }
};

TaskResult bind_rows(GatherInfo const& info, BindArgs const& args, Isa) {
    auto sizes = sizes_of(info, args);
    if (!sizes) return Err{sizes.error()};
    return TaskResult(std::make_unique<RowsTask>(*sizes));
}

TaskResult bind_reference(GatherInfo const& info, BindArgs const& args, Isa) {
    auto sizes = sizes_of(info, args);
    if (!sizes) return Err{sizes.error()};
    return make_task([s = *sizes](void* const* a, runtime::RunContext const&) {
        auto* y = static_cast<char*>(a[2]);
        for (int64_t outer = 0; outer < s.outer; ++outer)
            for (int64_t i = 0; i < s.count; ++i, y += s.row) {
                auto index = checked_index("Gather", index_at(a[1], s.axis.type, i), i, s.axis.first, s.size);
                std::memcpy(y, static_cast<char*>(a[0]) + (outer * s.size + index) * s.row, s.row);
            }
    });
}

}  // namespace

KernelResult gather_rows(GatherInfo const& info, Request const& request) {
    if (auto no = refuse_gather(request)) return Err{*no};
    return make_kernel(info, "gather", "rows", request, bind_rows);
}

KernelResult gather_reference(GatherInfo const& info, Request const& request) {
    if (auto no = refuse_gather(request)) return Err{*no};
    return make_kernel(info, "gather", "reference", request, bind_reference);
}

}  // namespace refactor::kernel
