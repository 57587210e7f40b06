// Tensors that are written by a rule: ShapeValues, Range, Trilu and OneHot.
#include "cuda/generated.h"
#include "cuda/movement_kernels.h"
#include "one_hot/one_hot.h"
#include "range/range.h"
#include "shape_values/shape_values.h"
#include "trilu/trilu.h"

namespace refactor::kernel::cuda {

using movement::count_of;
using movement::element_bytes;

namespace {

constexpr char const* kValuesBody = R"cuda(
struct rg_values_args { rg_u64 y, first, count, values[kCapacity]; };
RG_GLOBAL rg_shape_values(rg_values_args a) {
    RG_WAIT();
    if (threadIdx.x < a.count) ((rg_u64*)a.y)[a.first + threadIdx.x] = a.values[threadIdx.x];
}
)cuda";

constexpr char const* kRangeBody = R"cuda(
struct rg_range_args { rg_u64 start, delta, y, count, first, step; };
RG_GLOBAL rg_range(rg_range_args a) {
    RG_WAIT();
    Stored start = a.start ? *(Stored const*)a.start : (Stored)(rg_i64)a.first;
    Stored delta = a.start ? *(Stored const*)a.delta : (Stored)(rg_i64)a.step;
    RG_FOR(Index, i, (Index)a.count) ((Stored*)a.y)[i] = rg_Add(start, rg_Mul((Stored)i, delta));
}
)cuda";

constexpr char const* kTriluBody = R"cuda(
typedef rg_vec<Element, kWidth> Word;
struct rg_trilu_args { rg_u64 x, y, count; rg_axis columns, rows; rg_u64 diagonal; };
RG_GLOBAL rg_trilu(rg_trilu_args a) {
    RG_WAIT();
    Word const* x = (Word const*)a.x;
    Word* y = (Word*)a.y;
    rg_for_items<kItems, Word>((Index)a.count, [&](Index i) {
        Index row = i;
        const rg_i64 column = (rg_i64)rg_split(row, a.columns) * kWidth;
        const rg_i64 edge = (rg_i64)rg_split(row, a.rows) + (rg_i64)a.diagonal;
        const bool some = kUpper ? column + kWidth > edge : column <= edge;
        Word word = {};
        if (some) word = x[i];
#pragma unroll
        for (int k = 0; k < kWidth; ++k)
            if (kUpper ? column + k < edge : column + k > edge) word.v[k] = Element{};
        return word;
    }, [&](Index i, Word word) { y[i] = word; });
}
)cuda";

constexpr char const* kOneHotBody = R"cuda(
struct rg_one_hot_args { rg_u64 indices, values, y, count; rg_axis inner, depth; };
// The class that an index says, -1 if it is outside or no integer.
RG_FN rg_i64 rg_class(Real index, rg_i64 depth) {
    if constexpr (rg_real<Real>) {
        if (!(index >= (Real)-depth && index < (Real)depth) || (Real)(rg_i64)index != index) return -1;
    } else if (!rg_signed<Real>) {
        return (rg_u64)index < (rg_u64)depth ? (rg_i64)index : -1;
    }
    const rg_i64 whole = (rg_i64)index, at = whole < 0 ? whole + depth : whole;
    return at >= 0 && at < depth ? at : -1;
}
RG_GLOBAL rg_one_hot(rg_one_hot_args a) {
    RG_WAIT();
    Stored const* indices = (Stored const*)a.indices;
    const Word off = ((Word const*)a.values)[0], on = ((Word const*)a.values)[1];
    rg_for_items<kItems, Word>((Index)a.count, [&](Index outer) {
        Index inner = rg_split(outer, a.inner), at = rg_split(outer, a.depth);
        Index position = outer * (Index)a.inner.size + inner;
        return rg_class(rg_load(indices[position]), (rg_i64)a.depth.size) == (rg_i64)at ? on : off;
    }, [&](Index i, Word word) { ((Word*)a.y)[i] = word; });
}
)cuda";

Result<Launches, Rejection> bind_values(ShapeValuesInfo const&, BindArgs const& args, Code const& code) {
    constexpr size_t kCapacity = 64;
    Launches launches;
    for (size_t first = 0; first < args.params.size(); first += kCapacity) {
        auto count = std::min(kCapacity, args.params.size() - first);
        GeneratedLaunch launch;
        launch.function = code.function("rg_shape_values", constant_kind("kCapacity", kCapacity), kValuesBody);
        launch.blocks = 1, launch.on({0});
        launch.add(first), launch.add(count);
        for (size_t i = 0; i < kCapacity; ++i) launch.add(i < count ? args.params[first + i] : 0);
        launches.list.push_back(std::move(launch));
    }
    return launches;
}

Result<Launches, Rejection> bind_range(RangeInfo const&, BindArgs const& args, Code const& code) {
    auto const& y = *args.outputs[0];
    bool given = !args.inputs.empty();
    GeneratedLaunch launch;
    launch.function = code.function("rg_range", index_kind(y.count() < kNarrow) + number_kind(y.dtype), kRangeBody);
    launch.blocks = blocks_for(y.count(), kBlockThreads);
    launch.on({given ? 0 : Address::kNone, given ? 1 : Address::kNone, given ? 2 : 0});
    launch.add(y.count()), launch.add(given ? 0 : args.params[0]), launch.add(given ? 0 : args.params[1]);
    return Launches{{launch}};
}

Result<Launches, Rejection> bind_trilu(TriluInfo const& info, BindArgs const& args, Code const& code) {
    auto const& x = *args.inputs[0];
    auto rank = x.dims.size();
    auto rows = x.dims[rank - 2], columns = x.dims[rank - 1];
    auto bytes = element_bytes(x.dtype), width = kWidestBytes / bytes;
    while (columns % width) width /= 2;
    auto count = x.count() / width, items = items_of(bytes * width);
    GeneratedLaunch launch;
    auto kind = index_kind(count < kNarrow) + word_kind("Element", bytes) + constant_kind("kWidth", width) +
                constant_kind("kItems", items) + constant_kind("kUpper", info.upper);
    launch.function = code.function("rg_trilu", kind, kTriluBody);
    launch.blocks = blocks_for(count, items * kBlockThreads);
    launch.on({0, static_cast<int>(args.inputs.size())});
    launch.add(count), launch.add_axis(columns / width), launch.add_axis(rows);
    launch.add(std::clamp<int64_t>(args.params.empty() ? 0 : args.params[0], -rows, columns));
    Launches launches{{launch}};
    launches.in_place = 1;
    return launches;
}

Result<Launches, Rejection> bind_one_hot(OneHotInfo const& info, BindArgs const& args, Code const& code) {
    auto const& y = *args.outputs[0];
    auto rank = static_cast<int64_t>(y.dims.size()), axis = info.axis < 0 ? info.axis + rank : info.axis;
    auto bytes = element_bytes(y.dtype), items = items_of(bytes);
    GeneratedLaunch launch;
    auto kind = index_kind(y.count() < kNarrow) + word_kind("Word", bytes) + number_kind(args.inputs[0]->dtype) +
                constant_kind("kItems", items);
    launch.function = code.function("rg_one_hot", kind, kOneHotBody);
    launch.blocks = blocks_for(y.count(), items * kBlockThreads);
    launch.on({0, static_cast<int>(args.inputs.size() - 1), static_cast<int>(args.inputs.size())});
    launch.add(y.count()), launch.add_axis(count_of(y.dims, axis + 1, rank)), launch.add_axis(y.dims[axis]);
    return Launches{{launch}};
}

}  // namespace

KernelResult shape_values_nvrtc(ShapeValuesInfo const& info, Request const& request) {
    return generate(info, "shape_values", request, shape_values_reference, bind_values);
}
KernelResult range_nvrtc(RangeInfo const& info, Request const& request) {
    return generate(info, "range", request, range_reference, bind_range);
}
KernelResult trilu_nvrtc(TriluInfo const& info, Request const& request) {
    return generate(info, "trilu", request, trilu_reference, bind_trilu);
}
KernelResult one_hot_nvrtc(OneHotInfo const& info, Request const& request) {
    return generate(info, "one_hot", request, one_hot_reference, bind_one_hot);
}

}  // namespace refactor::kernel::cuda
