// ReverseSequence, TensorScatter and Lookup.
#include "cuda/generated.h"
#include "cuda/movement_kernels.h"
#include "lookup/lookup.h"
#include "reverse_sequence/reverse_sequence.h"
#include "tensor_scatter/tensor_scatter.h"

namespace refactor::kernel::cuda {

using movement::count_of;
using movement::element_bytes;

namespace {

constexpr char const* kReverseBody = R"cuda(
struct rg_reverse_args { rg_u64 x, lengths, y, fault, count, steps; rg_axis row, second; };
RG_GLOBAL rg_reverse(rg_reverse_args a) {
    RG_WAIT();
    Word const* x = (Word const*)a.x;
    rg_for_items<kItems, Word>((Index)a.count, [&](Index first) {
        Index column = rg_split(first, a.row), second = rg_split(first, a.second);
        Index time = kTimeFirst ? first : second;
        const rg_i64 length = ((rg_i64 const*)a.lengths)[kTimeFirst ? second : first];
        if ((rg_u64)length > a.steps) rg_index_fault(a.fault, length);
        else if (time < (Index)length) time = (Index)length - 1 - time;
        first = kTimeFirst ? time : first, second = kTimeFirst ? second : time;
        return x[(first * (Index)a.second.size + second) * (Index)a.row.size + column];
    }, [&](Index i, Word word) { ((Word*)a.y)[i] = word; });
}
)cuda";

constexpr char const* kCacheBody = R"cuda(
struct rg_cache_args { rg_u64 cache, update, indices, y, fault, count, kept, rows, row; rg_axis width, most, outer; };
// Output row `at` of a block holds row `at - begin` of the update, a row of the cache, or zeros.
RG_GLOBAL rg_write_cache(rg_cache_args a) {
    RG_WAIT();
    rg_for_items<kItems, Word>((Index)a.count, [&](Index block) {
        Index column = rg_split(block, a.width), at = rg_split(block, a.most), batch = rg_quotient(block, a.outer);
        rg_i64 begin = a.indices ? ((rg_i64 const*)a.indices)[batch] : 0;
        const rg_i64 most = (rg_i64)a.most.size, rows = (rg_i64)a.rows;
        const bool fits = kCircular || (begin >= 0 && begin <= most - rows);
        if (!fits) rg_index_fault(a.fault, begin);
        begin = begin % most + (begin % most < 0 ? most : 0);
        rg_i64 row = (rg_i64)at - begin;
        if (row < 0) row += most;
        if (fits && row < rows) return ((Word const*)a.update)[(block * (Index)a.rows + (Index)row) * (Index)a.row + column];
        if (at >= (Index)a.kept) return Word{};
        return ((Word const*)a.cache)[(block * (Index)a.kept + at) * (Index)a.row + column];
    }, [&](Index i, Word word) { ((Word*)a.y)[i] = word; });
}
)cuda";

constexpr char const* kWriteBody = R"cuda(
struct rg_write_args { rg_u64 update, indices, y, fault, count, most; rg_axis width, rows, outer; };
// The same over the cache itself: nothing but the update is moved.
RG_GLOBAL rg_write_rows(rg_write_args a) {
    RG_WAIT();
    RG_FOR(Index, i, (Index)a.count) {
        Index block = i, column = rg_split(block, a.width), row = rg_split(block, a.rows);
        rg_i64 begin = a.indices ? ((rg_i64 const*)a.indices)[rg_quotient(block, a.outer)] : 0;
        const rg_i64 most = (rg_i64)a.most;
        if (!kCircular && (begin < 0 || begin > most - (rg_i64)a.rows.size)) {
            rg_index_fault(a.fault, begin);
            continue;
        }
        const Index at = (Index)((begin % most + most + (rg_i64)row) % most);
        ((Word*)a.y)[(block * (Index)a.most + at) * (Index)a.width.size + column] = ((Word const*)a.update)[i];
    }
}
)cuda";

constexpr char const* kLookupBody = R"cuda(
struct rg_lookup_args { rg_u64 x, codes, values, fallback, y, count, keys; };
RG_FN rg_u64 rg_code(Stored x) {
    if constexpr (!rg_real<Stored>) return (rg_u64)(rg_i64)x;
    double number = (double)x;
    if (number != number) return ~0ull;
    const rg_u64 sign = 1ull << 63;
    union { double number; rg_u64 bits; } key = {number == 0 ? 0. : number};
    return key.bits & sign ? ~key.bits : key.bits | sign;
}
RG_GLOBAL rg_lookup(rg_lookup_args a) {
    RG_WAIT();
    rg_u64 const* codes = (rg_u64 const*)a.codes;
    RG_FOR(Index, i, (Index)a.count) {
        const rg_u64 code = rg_code(((Stored const*)a.x)[i]);
        rg_u64 low = 0, high = a.keys;
        while (low < high) {
            rg_u64 middle = (low + high) / 2;
            if (codes[middle] < code) low = middle + 1;
            else high = middle;
        }
        const bool hit = low < a.keys && codes[low] == code;
        ((Word*)a.y)[i] = hit ? ((Word const*)a.values)[low] : *(Word const*)a.fallback;
    }
}
)cuda";

int64_t word_of(int64_t row_bytes) {
    auto bytes = kWidestBytes;
    while (row_bytes % bytes) bytes /= 2;
    return bytes;
}

Result<Launches, Rejection> bind_reverse(ReverseSequenceInfo const& info, BindArgs const& args, Code const& code) {
    auto const& x = *args.inputs[0];
    auto row = count_of(x.dims, 2, x.dims.size()) * element_bytes(x.dtype), bytes = word_of(row);
    auto count = x.dims[0] * x.dims[1] * row / bytes, items = items_of(bytes);
    GeneratedLaunch launch;
    auto kind = index_kind(count < kNarrow) + word_kind("Word", bytes) + constant_kind("kItems", items) +
                constant_kind("kTimeFirst", info.time_axis == 0);
    launch.function = code.function("rg_reverse", kind, kReverseBody);
    launch.blocks = blocks_for(count, items * kBlockThreads);
    launch.on({0, 1, 2, Address::kFault});
    launch.add(count), launch.add(x.dims[static_cast<size_t>(info.time_axis)]);
    launch.add_axis(row / bytes), launch.add_axis(x.dims[1]);
    return Launches{{launch}};
}

Result<Launches, Rejection> bind_cache(TensorScatterInfo const& info, BindArgs const& args, Code const& code) {
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    auto axis = static_cast<size_t>(info.axis);
    auto row = count_of(x, axis + 1, x.size()) * element_bytes(args.inputs[0]->dtype), bytes = word_of(row);
    auto rows = args.inputs[1]->dims[axis], outer = count_of(x, 1, axis), width = row / bytes;
    // In place only the update is moved, and the old content need not be read.
    bool grows = x[axis] != y[axis];
    auto blocks = x[0] * outer, items = items_of(bytes), count = blocks * (grows ? y[axis] : rows) * width;
    auto kind = index_kind(blocks * y[axis] * width < kNarrow) + word_kind("Word", bytes) +
                constant_kind("kItems", items) + constant_kind("kCircular", info.circular);
    auto indices = info.indices ? 2 : Address::kNone, output = static_cast<int>(args.inputs.size());
    GeneratedLaunch launch;
    Launches launches;
    launch.blocks = blocks_for(count, items * kBlockThreads);
    if (grows) {
        launch.function = code.function("rg_write_cache", kind, kCacheBody);
        launch.on({0, 1, indices, output, Address::kFault});
        launch.add(count), launch.add(x[axis]), launch.add(rows), launch.add(width);
        launch.add_axis(width), launch.add_axis(y[axis]), launch.add_axis(outer);
    } else {
        launch.function = code.function("rg_write_rows", kind, kWriteBody);
        launch.on({1, indices, output, Address::kFault});
        launch.add(count), launch.add(y[axis]);
        launch.add_axis(width), launch.add_axis(rows), launch.add_axis(outer);
        launches.in_place = 1, launches.copies = launches.repeatable = true;
    }
    launches.list.push_back(std::move(launch));
    return launches;
}

Result<Launches, Rejection> bind_lookup(LookupInfo const&, BindArgs const& args, Code const& code) {
    auto const &x = *args.inputs[0], &y = *args.outputs[0];
    GeneratedLaunch launch;
    auto kind = index_kind(x.count() < kNarrow) + number_kind(x.dtype) + word_kind("Word", element_bytes(y.dtype));
    launch.function = code.function("rg_lookup", kind, kLookupBody);
    launch.blocks = blocks_for(x.count(), kBlockThreads);
    launch.on({0, 1, 2, 3, 4});
    launch.add(x.count()), launch.add(args.inputs[1]->count());
    return Launches{{launch}};
}

}  // namespace

KernelResult reverse_sequence_nvrtc(ReverseSequenceInfo const& info, Request const& request) {
    return generate(info, "reverse_sequence", request, reverse_sequence_reference, bind_reverse);
}
KernelResult tensor_scatter_nvrtc(TensorScatterInfo const& info, Request const& request) {
    return generate(info, "tensor_scatter", request, tensor_scatter_reference, bind_cache);
}
KernelResult lookup_nvrtc(LookupInfo const& info, Request const& request) {
    return generate(info, "lookup", request, lookup_search, bind_lookup);
}

}  // namespace refactor::kernel::cuda
