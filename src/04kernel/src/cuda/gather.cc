// Gather, GatherElements and GatherND.
#include "gather/gather.h"

#include "cuda/generated.h"
#include "cuda/movement_kernels.h"
#include "gather_elements/gather_elements.h"
#include "gather_nd/gather_nd.h"

namespace refactor::kernel::cuda {

using movement::count_of;
using movement::element_bytes;
using movement::strides_of;

namespace {

constexpr char const* kRowsBody = R"cuda(
struct rg_gather_args { rg_u64 x, indices, y, fault, count, size; rg_axis row, indices_count; };
RG_GLOBAL rg_gather(rg_gather_args a) {
    RG_WAIT();
    Word const* x = (Word const*)a.x;
    Place const* indices = (Place const*)a.indices;
    Word* y = (Word*)a.y;
    rg_for_items<kItems, Word>((Index)a.count, [&](Index outer) {
        Index column = rg_split(outer, a.row), position = rg_split(outer, a.indices_count), index;
        if (!rg_checked(indices[position], a.size, a.fault, index)) return Word{};
        return x[(outer * (Index)a.size + index) * (Index)a.row.size + column];
    }, [&](Index i, Word word) { y[i] = word; });
}
)cuda";

constexpr char const* kElementsBody = R"cuda(
struct rg_elements_args { rg_u64 x, indices, y, fault, count, size, step; rg_axis sizes[kRank]; rg_u64 steps[kRank]; };
RG_GLOBAL rg_gather_elements(rg_elements_args a) {
    RG_WAIT();
    Word const* x = (Word const*)a.x;
    Place const* indices = (Place const*)a.indices;
    Word* y = (Word*)a.y;
    rg_for_items<kItems, Word>((Index)a.count, [&](Index rest) {
        Index position = rest, from = 0, index;
#pragma unroll
        for (int axis = kRank - 1; axis > 0; --axis) from += rg_split(rest, a.sizes[axis]) * (Index)a.steps[axis];
        from += rest * (Index)a.steps[0];
        if (!rg_checked(indices[position], a.size, a.fault, index)) return Word{};
        return x[from + index * (Index)a.step];
    }, [&](Index i, Word word) { y[i] = word; });
}
)cuda";

constexpr char const* kTuplesBody = R"cuda(
struct rg_tuples_args {
    rg_u64 x, indices, y, fault, count, batch;
    rg_axis row, tuples;
    rg_u64 sizes[kDepth], steps[kDepth];
};
RG_GLOBAL rg_gather_nd(rg_tuples_args a) {
    RG_WAIT();
    Word const* x = (Word const*)a.x;
    Place const* indices = (Place const*)a.indices;
    Word* y = (Word*)a.y;
    rg_for_items<kItems, Word>((Index)a.count, [&](Index tuple) {
        Index from = rg_split(tuple, a.row), first = tuple * kDepth;
        from += rg_quotient(tuple, a.tuples) * (Index)a.batch;
        bool inside = true;
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
            Index index;
            inside = rg_checked(indices[first + k], a.sizes[k], a.fault, index) && inside;
            from += index * (Index)a.steps[k];
        }
        return inside ? x[from] : Word{};
    }, [&](Index i, Word word) { y[i] = word; });
}
)cuda";

std::string place_kind(DataType type) {
    return type == DataType::I32 ? "typedef int Place;\n" : "typedef rg_i64 Place;\n";
}

/// The widest word that rows of so many bytes consist of.
int64_t word_of(int64_t row_bytes) {
    auto bytes = kWidestBytes;
    while (row_bytes % bytes) bytes /= 2;
    return bytes;
}

bool narrow(BindArgs const& args) {
    return args.inputs[0]->count() < kNarrow && args.inputs[1]->count() < kNarrow && args.outputs[0]->count() < kNarrow;
}

Result<Launches, Rejection> bind_gather(GatherInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &indices = *args.inputs[1], &y = *args.outputs[0];
    auto axis = static_cast<size_t>(info.axis);
    auto row = count_of(x.dims, axis + 1, x.dims.size()) * element_bytes(x.dtype);
    auto bytes = word_of(row), count = y.count() * element_bytes(y.dtype) / bytes, items = items_of(bytes);
    GeneratedLaunch launch;
    auto kind = index_kind(narrow(args)) + word_kind("Word", bytes) + place_kind(indices.dtype) +
                constant_kind("kItems", items);
    launch.function = code.function("rg_gather", kind, kRowsBody);
    launch.blocks = blocks_for(count, items * kBlockThreads);
    launch.on({0, 1, 2, Address::kFault});
    launch.add(count), launch.add(x.dims[axis]), launch.add_axis(row / bytes), launch.add_axis(indices.count());
    return Launches{{launch}};
}

Result<Launches, Rejection> bind_elements(GatherElementsInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &indices = *args.inputs[1], &y = *args.outputs[0];
    auto axis = static_cast<size_t>(info.axis);
    auto strides = strides_of(x.dims);
    AxisList axes{y.dims, {strides}};
    axes.steps[0][axis] = 0;
    axes.merge();
    auto bytes = element_bytes(x.dtype), items = items_of(bytes);
    GeneratedLaunch launch;
    auto kind = index_kind(narrow(args)) + word_kind("Word", bytes) + place_kind(indices.dtype) +
                constant_kind("kItems", items) +
                constant_kind("kRank", std::max<int64_t>(1, static_cast<int64_t>(axes.sizes.size())));
    launch.function = code.function("rg_gather_elements", kind, kElementsBody);
    launch.blocks = blocks_for(y.count(), items * kBlockThreads);
    launch.on({0, 1, 2, Address::kFault});
    launch.add(y.count()), launch.add(x.dims[axis]), launch.add(strides[axis]);
    launch.add_axes(axes.sizes), launch.add_steps(axes.steps[0]);
    return Launches{{launch}};
}

Result<Launches, Rejection> bind_tuples(GatherNDInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &indices = *args.inputs[1], &y = *args.outputs[0];
    auto batch = static_cast<size_t>(info.batch_dims), depth = static_cast<size_t>(indices.dims.back());
    auto row = count_of(x.dims, batch + depth, x.dims.size()) * element_bytes(x.dtype);
    auto bytes = word_of(row), count = y.count() * element_bytes(y.dtype) / bytes, items = items_of(bytes);
    auto words = [&](int64_t elements) { return elements * element_bytes(x.dtype) / bytes; };
    auto strides = strides_of(x.dims);
    GeneratedLaunch launch;
    auto kind = index_kind(narrow(args)) + word_kind("Word", bytes) + place_kind(indices.dtype) +
                constant_kind("kItems", items) + constant_kind("kDepth", indices.dims.back());
    launch.function = code.function("rg_gather_nd", kind, kTuplesBody);
    launch.blocks = blocks_for(count, items * kBlockThreads);
    launch.on({0, 1, 2, Address::kFault});
    launch.add(count), launch.add(words(count_of(x.dims, batch, x.dims.size())));
    launch.add_axis(row / bytes), launch.add_axis(count_of(indices.dims, batch, indices.dims.size() - 1));
    for (auto i = batch; i < batch + depth; ++i) launch.add(x.dims[i]);
    for (auto i = batch; i < batch + depth; ++i) launch.add(words(strides[i]));
    return Launches{{launch}};
}

}  // namespace

KernelResult gather_nvrtc(GatherInfo const& info, Request const& request) {
    return generate(info, "gather", request, gather_reference, bind_gather);
}
KernelResult gather_elements_nvrtc(GatherElementsInfo const& info, Request const& request) {
    return generate(info, "gather_elements", request, gather_elements_reference, bind_elements);
}
KernelResult gather_nd_nvrtc(GatherNDInfo const& info, Request const& request) {
    return generate(info, "gather_nd", request, gather_nd_reference, bind_tuples);
}

}  // namespace refactor::kernel::cuda
