// ScatterElements and ScatterND: the data is copied, then every update changes its element at once. Of several
// assignments to one element any may win; several sums and products of floats are rounded in any order.
#include "scatter/scatter.h"

#include "cuda/generated.h"
#include "cuda/movement_kernels.h"

namespace refactor::kernel::cuda {

using movement::count_of;
using movement::element_bytes;
using movement::strides_of;

namespace {

// `rg_update`: the bits around an element are exchanged until nobody else was faster.
constexpr char const* kUpdate = R"cuda(
enum { kSum = 1, kProduct, kLeast, kMost };
RG_FN Real rg_combine(Real a, Real b) {
    return kReduction == kSum ? rg_Add(a, b) : kReduction == kProduct ? rg_Mul(a, b)
           : kReduction == kLeast ? rg_Min(a, b) : rg_Max(a, b);
}
template <class Bits> RG_FN void rg_exchange(Bits* word, int shift, Real update) {
    constexpr Bits mask = sizeof(Stored) == sizeof(Bits) ? ~(Bits)0 : ((Bits)1 << sizeof(Stored) * 8 % (sizeof(Bits) * 8)) - 1;
    Bits seen = *word, expected;
    do {
        expected = seen;
        union { Bits bits; Stored value; } part = {(seen >> shift) & mask}, result = {0};
        result.value = rg_store(rg_combine(rg_load(part.value), update));
        seen = atomicCAS(word, expected, (Bits)((expected & ~(mask << shift)) | (result.bits & mask) << shift));
    } while (seen != expected);
}
RG_FN void rg_update(Stored* y, Stored update) {
    if constexpr (sizeof(Stored) == 8) {
        rg_exchange((rg_u64*)y, 0, rg_load(update));
    } else {
        rg_u64 address = (rg_u64)y;
        rg_exchange((unsigned*)(address & ~3ull), (int)(address & 3) * 8, rg_load(update));
    }
}
)cuda";

constexpr char const* kNativeSum = R"cuda(
RG_FN void rg_update(Stored* y, Stored update) { atomicAdd((Sum*)y, (Sum)update); }
)cuda";

constexpr char const* kElementsBody = R"cuda(
struct rg_scatter_args {
    rg_u64 indices, updates, y, fault, count, size, step;
    rg_axis sizes[kRank];
    rg_u64 steps[kRank];
};
RG_GLOBAL rg_scatter_elements(rg_scatter_args a) {
    RG_WAIT();
    RG_FOR(Index, i, (Index)a.count) {
        Index rest = i, to = 0, index;
#pragma unroll
        for (int axis = kRank - 1; axis > 0; --axis) to += rg_split(rest, a.sizes[axis]) * (Index)a.steps[axis];
        to += rest * (Index)a.steps[0];
        if (rg_checked(((Place const*)a.indices)[i], a.size, a.fault, index))
            rg_update((Stored*)a.y + (to + index * (Index)a.step), ((Stored const*)a.updates)[i]);
    }
}
)cuda";

constexpr char const* kTuplesBody = R"cuda(
struct rg_scatter_nd_args {
    rg_u64 indices, updates, y, fault, count;
    rg_axis row;
    rg_u64 sizes[kDepth], steps[kDepth];
};
RG_GLOBAL rg_scatter_nd(rg_scatter_nd_args a) {
    RG_WAIT();
    RG_FOR(Index, i, (Index)a.count) {
        Index tuple = i, to = rg_split(tuple, a.row);
        bool inside = true;
#pragma unroll
        for (int k = 0; k < kDepth; ++k) {
            Index index;
            inside = rg_checked(((Place const*)a.indices)[tuple * kDepth + k], a.sizes[k], a.fault, index) && inside;
            to += index * (Index)a.steps[k];
        }
        if (inside) rg_update((Stored*)a.y + to, ((Stored const*)a.updates)[i]);
    }
}
)cuda";

/// The sums that the device has an instruction for, as the type it takes; else null.
char const* native_sum(ScatterReduction reduction, DataType type) {
    if (reduction != ScatterReduction::Add) return nullptr;
    switch (type) {
        case DataType::F32:
            return "float";
        case DataType::F64:
            return "double";
        case DataType::I32:
        case DataType::U32:
            return "unsigned";
        case DataType::I64:
        case DataType::U64:
            return "rg_u64";
        default:
            return nullptr;
    }
}

std::string update_kind(ScatterReduction reduction, DataType type) {
    if (reduction == ScatterReduction::None)
        return word_kind("Stored", element_bytes(type)) +
               "RG_FN void rg_update(Stored* y, Stored update) { *y = update; }\n";
    if (auto const* sum = native_sum(reduction, type))
        return number_kind(type) + "typedef " + sum + " Sum;\n" + kNativeSum;
    return number_kind(type) + constant_kind("kReduction", static_cast<int64_t>(reduction)) + kUpdate;
}

std::string scatter_kind(ScatterInfo const& info, BindArgs const& args) {
    auto const& x = *args.inputs[0];
    bool narrow = x.count() < kNarrow && args.inputs[1]->count() < kNarrow && args.inputs[2]->count() < kNarrow;
    return index_kind(narrow) + update_kind(info.reduction, x.dtype) +
           (args.inputs[1]->dtype == DataType::I32 ? "typedef int Place;\n" : "typedef rg_i64 Place;\n");
}

GeneratedLaunch elements_launch(ScatterInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &updates = *args.inputs[2];
    auto axis = static_cast<size_t>(info.axis);
    auto strides = strides_of(x.dims);
    AxisList axes{updates.dims, {strides}};
    axes.steps[0][axis] = 0;
    axes.merge();
    GeneratedLaunch launch;
    auto kind = scatter_kind(info, args) +
                constant_kind("kRank", std::max<int64_t>(1, static_cast<int64_t>(axes.sizes.size())));
    launch.function = code.function("rg_scatter_elements", kind, kElementsBody);
    launch.add(updates.count()), launch.add(x.dims[axis]), launch.add(strides[axis]);
    launch.add_axes(axes.sizes), launch.add_steps(axes.steps[0]);
    return launch;
}

GeneratedLaunch tuples_launch(ScatterInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &indices = *args.inputs[1], &updates = *args.inputs[2];
    auto depth = static_cast<size_t>(indices.dims.back());
    auto strides = strides_of(x.dims);
    GeneratedLaunch launch;
    auto kind = scatter_kind(info, args) + constant_kind("kDepth", indices.dims.back());
    launch.function = code.function("rg_scatter_nd", kind, kTuplesBody);
    launch.add(updates.count()), launch.add_axis(count_of(x.dims, depth, x.dims.size()));
    for (size_t i = 0; i < depth; ++i) launch.add(x.dims[i]);
    for (size_t i = 0; i < depth; ++i) launch.add(strides[i]);
    return launch;
}

Result<Launches, Rejection> bind_scatter(ScatterInfo const& info, BindArgs const& args, Code const& code) {
    Launches launches;
    launches.in_place = 1, launches.copies = true;
    if (args.inputs[2]->count() == 0) return launches;
    auto launch = info.axis >= 0 ? elements_launch(info, args, code) : tuples_launch(info, args, code);
    launch.blocks = blocks_for(args.inputs[2]->count(), kBlockThreads);
    launch.on({1, 2, 3, Address::kFault});
    launches.list.push_back(std::move(launch));
    return launches;
}

}  // namespace

KernelResult scatter_nvrtc(ScatterInfo const& info, Request const& request) {
    return generate(info, "scatter", request, scatter_reference, bind_scatter);
}

}  // namespace refactor::kernel::cuda
