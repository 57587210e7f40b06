#include "softmax/softmax.h"

#include "cuda/instances.h"
#include "cuda/kernels.h"
#include "cuda/rows_in_registers.h"

namespace refactor::kernel::cuda {

namespace {

Result<Launches, Rejection> bind_softmax(SoftmaxInfo const& info, BindArgs const& args, Instances const& instances) {
    auto const& x = *args.inputs[0];
    AxisSplit split(x.dims, info.axis, info.axes);
    auto number = [](int64_t value) { return static_cast<uint64_t>(value); };
    auto const* type = element_text(x.dtype);
    Launches launches;
    launches.in_place = 1;
    launches.operations = 5. * static_cast<double>(x.count());
    if (x.count() == 0) return launches;
    if (split.inner > 1) {
        auto columns = split.outer * split.inner;
        // A warp of columns beside each other, unless all columns keep the card busy by themselves.
        auto across =
            columns >= kBusyBlocks * kBlockThreads ? kBlockThreads : std::min(power_of_two(columns), int64_t{32});
        launches.list.push_back(instances.launch(
            "rg_softmax", template_text("rg_softmax_columns", type, info.log, info.nan_to_zero, across),
            ceil_div(columns, across), {operand(0), operand(1)},
            {number(columns), number(split.size), number(split.inner)}));
        return launches;
    }
    RowsInRegisters rows(x.dtype, split.outer, split.size, split.size);
    if (rows.fit) {
        launches.list.push_back(instances.launch("rg_softmax",
                                                 template_text("rg_softmax_registers", type, info.log, info.nan_to_zero,
                                                               rows.vector, rows.items, rows.lanes),
                                                 rows.blocks(), {operand(0), operand(1)},
                                                 {number(split.outer), number(rows.length)}));
        return launches;
    }
    // Each thread keeps at least eight vectors.
    auto shares = split.outer >= kBusyBlocks / 2
                      ? int64_t{1}
                      : std::clamp<int64_t>(rows.length / (8 * kBlockThreads), 1, ceil_div(kBusyBlocks, split.outer));
    auto add = [&](bool sums, bool stores) {
        launches.list.push_back(instances.launch(
            "rg_softmax_long",
            template_text("rg_softmax_long", type, info.log, info.nan_to_zero, rows.vector, sums, stores),
            split.outer * shares, {operand(0), operand(1), shares > 1 ? scratch() : kNowhere},
            {number(split.outer), number(rows.length), number(shares)}));
    };
    if (shares == 1) {
        add(true, true);
    } else {
        auto part_bytes = 2 * (x.dtype == DataType::F64 ? sizeof(double) : sizeof(float));
        launches.workspace = static_cast<size_t>(split.outer * shares) * part_bytes;
        add(true, false), add(false, true);
    }
    return launches;
}

}  // namespace

MaybeKernel softmax_nvrtc(SoftmaxInfo const& info, Request const& request) {
    return make_instances(info, request, "softmax", request.inputs[0].dtype, kSoftmaxSource, make_softmax_reference,
                          bind_softmax);
}

}  // namespace refactor::kernel::cuda
