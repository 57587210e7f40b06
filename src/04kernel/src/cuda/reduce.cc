#include "reduce/reduce.h"

#include "arg_reduce/arg_reduce.h"
#include "cuda/instances.h"
#include "cuda/kernels.h"
#include "global_pool/global_pool.h"

#include <limits>

namespace refactor::kernel::cuda {

namespace {

/// How a reduction is laid out: the template and its arguments, and the launches.
struct ReducePlan {
    std::string accumulator;
    DataType x, y;
    size_t part_bytes;  ///< of one accumulator
};

/// A vector of elements is the unit along the innermost run and in the steps of all others.
struct Units {
    Dims kept, reduced;  ///< sizes, then steps
    int64_t outputs = 1, length = 1;
    int vector = 1;

    Units(ReduceShape const& shape, DataType type) {
        Dims steps;
        auto const& inner = shape.reduces_last ? shape.reduced : shape.kept;
        for (auto const* runs : {&shape.kept, &shape.reduced})
            for (auto const& run : *runs) steps.push_back(&run == &inner.back() ? run.size : run.stride);
        // A scalar has no run at all.
        vector = inner.empty() ? 1 : vector_width(type, steps);
        outputs = shape.kept_count / (shape.reduces_last ? 1 : vector);
        length = shape.reduced_count / (shape.reduces_last ? vector : 1);
        add(kept, shape.kept, shape.reduces_last ? nullptr : &inner.back());
        add(reduced, shape.reduced, shape.reduces_last && !inner.empty() ? &inner.back() : nullptr);
    }

private:
    template <class Runs, class Run>
    void add(Dims& axes, Runs const& runs, Run const* innermost) const {
        for (auto const& run : runs) axes.push_back(&run == innermost ? run.size / vector : run.size);
        for (auto const& run : runs) axes.push_back(&run == innermost ? run.stride : run.stride / vector);
    }
};

constexpr int64_t kWarp = 32;

/// Threads for a row of `length` vectors: neighbours read neighbouring vectors; a block where a warp would take more
/// than 16 turns, or where warps are too few to keep the card busy.
int64_t lanes_of(int64_t rows, int64_t length) {
    auto lanes = std::min(power_of_two(length), kWarp);
    bool few = ceil_div(rows * kWarp, kBlockThreads) < kBusyBlocks && length > 2 * kWarp;
    return few || length > 16 * kWarp ? kBlockThreads : lanes;
}

/// Threads side by side of a block over `columns` vectors: a line of 512 bytes, unless all columns are fewer or keep
/// the card busy by themselves.
int64_t columns_of(int64_t columns) {
    if (columns >= kBusyBlocks * kBlockThreads) return kBlockThreads;
    return std::min(power_of_two(columns), kWarp);
}

/// Blocks that share an output so that all are busy, each thread with at least 8 vectors of its own.
int64_t shares_of(int64_t blocks, int64_t length, int64_t threads_along) {
    if (blocks >= kBusyBlocks) return 1;
    return std::max<int64_t>(1, std::min(ceil_div(2 * kBusyBlocks, blocks), length / (8 * threads_along)));
}

Launches launches_of(ReducePlan const& plan, ReduceShape const& shape, int64_t elements, Instances const& instances) {
    Launches launches;
    if (shape.kept_count == 0) return launches;
    Units units(shape, plan.x);
    auto outputs = shape.kept_count;
    bool wide = std::max(elements, outputs) >= std::numeric_limits<int32_t>::max();
    auto across = shape.reduces_last ? lanes_of(units.outputs, units.length) : columns_of(units.outputs);
    auto along = shape.reduces_last ? across : kBlockThreads / across;
    auto per_block = shape.reduces_last ? kBlockThreads / across : across;
    auto blocks = ceil_div(units.outputs, per_block);
    auto shares = shares_of(blocks, units.length, along);
    // Shared by whole blocks.
    if (shape.reduces_last && across < kBlockThreads) shares = 1;
    auto call = template_text(shape.reduces_last ? "rg_reduce_rows" : "rg_reduce_columns", plan.accumulator,
                              element_text(plan.x), element_text(plan.y), wide ? "rg_u64" : "unsigned",
                              units.kept.size() / 2, units.reduced.size() / 2, units.vector, across);
    std::vector<uint64_t> numbers;
    for (auto number : {units.outputs, units.length, shares, shape.reduced_count})
        numbers.push_back(static_cast<uint64_t>(number));
    numbers.insert(numbers.end(), units.kept.begin(), units.kept.end());
    numbers.insert(numbers.end(), units.reduced.begin(), units.reduced.end());
    launches.list.push_back(instances.launch("rg_reduce", call, blocks * shares,
                                             {operand(0), operand(1), shares > 1 ? scratch() : kNowhere},
                                             std::move(numbers)));
    launches.operations = static_cast<double>(elements);
    if (shares == 1) return launches;
    launches.workspace = static_cast<size_t>(outputs * shares) * plan.part_bytes;
    call = template_text("rg_reduce_parts", plan.accumulator, element_text(plan.y));
    launches.list.push_back(instances.launch(
        "rg_reduce_parts", call, ceil_div(outputs, kBlockThreads / kWarp), {scratch(), operand(1)},
        {static_cast<uint64_t>(outputs), static_cast<uint64_t>(shares), static_cast<uint64_t>(shape.reduced_count)}));
    return launches;
}

std::string accumulator_of(ReduceKind kind, DataType type) {
    if (kind == ReduceKind::LogSumExp) return template_text("rg_log_sum_exp", element_text(type));
    return template_text("rg_reduction", static_cast<int>(kind), element_text(type));
}

/// Accumulators hold one number of 4 or 8 bytes; two for LogSumExp.
size_t part_bytes_of(ReduceKind kind, DataType type) {
    bool narrow = type == DataType::F32 || type == DataType::F16 || type == DataType::BF16;
    return (narrow ? 4 : 8) * (kind == ReduceKind::LogSumExp ? 2 : 1);
}

ReducePlan plan_of(ReduceKind kind, DataType type) {
    return {accumulator_of(kind, type), type, type, part_bytes_of(kind, type)};
}

Result<Launches, Rejection> bind_reduce(ReduceInfo const& info, BindArgs const& args, Instances const& instances) {
    auto const& x = *args.inputs[0];
    return launches_of(plan_of(info.kind, x.dtype), ReduceShape(x.dims, info.axes), x.count(), instances);
}

Result<Launches, Rejection> bind_arg_reduce(ArgReduceInfo const& info, BindArgs const& args,
                                            Instances const& instances) {
    auto const& x = *args.inputs[0];
    ReducePlan plan{template_text("rg_place", info.min, info.select_last_index, element_text(x.dtype)), x.dtype,
                    DataType::I64, 16};
    return launches_of(plan, ReduceShape(x.dims, Dims{info.axis}), x.count(), instances);
}

Result<Launches, Rejection> bind_global_pool(GlobalPoolInfo const& info, BindArgs const& args,
                                             Instances const& instances) {
    auto const& x = *args.inputs[0];
    Dims axes;
    for (int64_t axis = 2; axis < static_cast<int64_t>(x.dims.size()); ++axis) axes.push_back(axis);
    auto kind = info.kind == PoolKind::Max ? ReduceKind::Max : ReduceKind::Mean;
    return launches_of(plan_of(kind, x.dtype), ReduceShape(x.dims, axes), x.count(), instances);
}

}  // namespace

MaybeKernel reduce_nvrtc(ReduceInfo const& info, Request const& request) {
    return make_instances(info, request, "reduce", request.inputs[0].dtype, kReduceSource, make_reduce_reference,
                          bind_reduce);
}

MaybeKernel arg_reduce_nvrtc(ArgReduceInfo const& info, Request const& request) {
    return make_instances(info, request, "arg_reduce", request.inputs[0].dtype, kReduceSource,
                          make_arg_reduce_reference, bind_arg_reduce);
}

MaybeKernel global_pool_nvrtc(GlobalPoolInfo const& info, Request const& request) {
    return make_instances(info, request, "global_pool", request.inputs[0].dtype, kReduceSource, global_pool_reference,
                          bind_global_pool);
}

}  // namespace refactor::kernel::cuda
