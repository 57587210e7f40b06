// TopK. An entry is a number that orders the elements of a line: the bits of the value, made monotonic, above the
// complement of the position, so that of equal values the first is the greatest.
#include "top_k/top_k.h"

#include "cuda/generated.h"
#include "cuda/movement_kernels.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel::cuda {

namespace {

constexpr char const* kEntries = R"cuda(
constexpr int kSlots = 1024;
struct rg_entry { Key key; unsigned order; };
RG_FN bool rg_above(rg_entry a, rg_entry b) { return a.key > b.key || (a.key == b.key && a.order > b.order); }
// NaN is above every number, zeros are equal.
RG_FN Key rg_key(Stored stored) {
    Real value = rg_load(stored);
    Key key;
    if constexpr (rg_real<Real>) {
        union { Real value; Key bits; } number = {value == 0 ? (Real)0 : value};
        constexpr Key sign = (Key)1 << (sizeof(Key) * 8 - 1);
        key = value != value ? ~(Key)0 : number.bits & sign ? ~number.bits : number.bits | sign;
    } else {
        key = (Key)value ^ (rg_signed<Real> ? (Key)1 << (sizeof(Key) * 8 - 1) : 0);
    }
    return kLargest ? key : ~key;
}
struct rg_top_args { rg_u64 x, values, indices, entries, size, inner, k, lines, padded, span, stride; };
RG_FN rg_u64 rg_line(rg_top_args const& a, rg_u64 line, rg_u64 size) {
    return line / a.inner * size * a.inner + line % a.inner;
}
RG_FN rg_entry rg_read(rg_top_args const& a, rg_u64 line, rg_u64 i) {
    if (i >= a.size) return {0, 0};
    return {rg_key(((Stored const*)a.x)[rg_line(a, line, a.size) + i * a.inner]), ~(unsigned)i};
}
RG_FN void rg_write(rg_top_args const& a, rg_u64 line, rg_u64 rank, rg_entry entry) {
    const rg_u64 to = rg_line(a, line, a.k) + rank * a.inner, from = ~entry.order;
    ((Stored*)a.values)[to] = ((Stored const*)a.x)[rg_line(a, line, a.size) + from * a.inner];
    ((rg_i64*)a.indices)[to] = (rg_i64)from;
}
// One step of a bitonic network over runs of `span`: pair `p` of all.
RG_FN void rg_order(rg_entry* entries, unsigned p, unsigned span, unsigned stride) {
    const unsigned low = p / stride * stride * 2 + p % stride, high = low + stride;
    const rg_entry a = entries[low], b = entries[high];
    if (rg_above(b, a) == ((low & span) == 0)) entries[low] = b, entries[high] = a;
}
// Sorts the first `count` (a power of two) entries in runs of `run`, each descending.
RG_FN void rg_sort_shared(rg_entry* entries, unsigned count, unsigned run) {
    for (unsigned span = 2; span <= run; span *= 2)
        for (unsigned stride = span / 2; stride > 0; stride /= 2) {
            for (unsigned p = threadIdx.x; p < count / 2; p += 256) rg_order(entries, p, span == run ? 0 : span, stride);
            __syncthreads();
        }
}
)cuda";

// Lines of at most kSlots entries: several of them in a block.
constexpr char const* kShortBody = R"cuda(
RG_GLOBAL rg_top_short(rg_top_args a) {
    RG_WAIT();
    __shared__ rg_entry entries[kSlots];
    const unsigned run = (unsigned)a.padded, together = kSlots / run;
    for (rg_u64 first = (rg_u64)blockIdx.x * together; first < a.lines; first += (rg_u64)gridDim.x * together) {
        for (unsigned i = threadIdx.x; i < kSlots; i += 256) {
            const rg_u64 line = first + i / run;
            entries[i] = line < a.lines ? rg_read(a, line, i % run) : rg_entry{0, 0};
        }
        __syncthreads();
        rg_sort_shared(entries, kSlots, run);
        for (unsigned i = threadIdx.x; i < kSlots; i += 256)
            if (first + i / run < a.lines && i % run < a.k) rg_write(a, first + i / run, i % run, entries[i]);
        __syncthreads();
    }
}
)cuda";

// A block finds the k-th key of a long line digit by digit, then collects what is above it and the first of its equals.
constexpr char const* kSelectBody = R"cuda(
RG_FN unsigned rg_count_before(bool mine, unsigned* warps, unsigned& total) {
    const unsigned votes = __ballot_sync(0xffffffffu, mine), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) warps[warp] = __popc(votes);
    __syncthreads();
    unsigned before = __popc(votes & ((1u << lane) - 1));
    total = 0;
    for (unsigned w = 0; w < 8; ++w) {
        if (w == warp) before += total;
        total += warps[w];
    }
    __syncthreads();
    return before;
}
RG_GLOBAL rg_top_select(rg_top_args a) {
    RG_WAIT();
    __shared__ rg_entry entries[kSlots];
    __shared__ unsigned histogram[256], suffix[256], warps[8], digit, above;
    const unsigned thread = threadIdx.x;
    for (rg_u64 line = blockIdx.x; line < a.lines; line += gridDim.x) {
        Key prefix = 0;
        unsigned wanted = (unsigned)a.k;
        for (int shift = sizeof(Key) * 8 - 8; shift >= 0; shift -= 8) {
            histogram[thread] = 0;
            __syncthreads();
            for (rg_u64 i = thread; i < a.size; i += 256) {
                const Key key = rg_read(a, line, i).key;
                if (shift + 8 == sizeof(Key) * 8 || key >> (shift + 8) % (sizeof(Key) * 8) == prefix)
                    atomicAdd(&histogram[(unsigned)(key >> shift) & 255], 1u);
            }
            __syncthreads();
            suffix[thread] = histogram[thread];
            __syncthreads();
            for (unsigned step = 1; step < 256; step *= 2) {
                const unsigned more = thread + step < 256 ? suffix[thread + step] : 0;
                __syncthreads();
                suffix[thread] += more;
                __syncthreads();
            }
            const unsigned greater = suffix[thread] - histogram[thread];
            if (greater < wanted && suffix[thread] >= wanted) digit = thread, above = greater;
            __syncthreads();
            prefix = (prefix << 8) | digit, wanted -= above;
            __syncthreads();
        }
        unsigned taken = 0, equals = 0;
        for (unsigned i = thread; i < kSlots; i += 256) entries[i] = {0, 0};
        __syncthreads();
        for (rg_u64 base = 0; base < a.size; base += 256) {
            const rg_u64 i = base + thread;
            const rg_entry entry = rg_read(a, line, i);
            const bool greater = i < a.size && entry.key > prefix, equal = i < a.size && entry.key == prefix;
            unsigned all_equals, all_taken;
            const unsigned rank = rg_count_before(equal, warps, all_equals);
            const bool take = greater || (equal && equals + rank < wanted);
            const unsigned to = rg_count_before(take, warps, all_taken);
            if (take) entries[taken + to] = entry;
            taken += all_taken, equals += all_equals;
        }
        __syncthreads();
        rg_sort_shared(entries, (unsigned)a.padded, (unsigned)a.padded);
        for (unsigned i = thread; i < a.k; i += 256) rg_write(a, line, i, entries[i]);
        __syncthreads();
    }
}
)cuda";

// Whole lines sorted in memory: runs of kSlots in shared memory, wider steps by launches of their own.
constexpr char const* kSortBody = R"cuda(
RG_GLOBAL rg_top_fill(rg_top_args a) {
    RG_WAIT();
    RG_FOR(rg_u64, i, a.lines * a.padded) ((rg_entry*)a.entries)[i] = rg_read(a, i / a.padded, i % a.padded);
}
// Steps of at most kSlots / 2 of the runs of `span`; all of them if `span` is kSlots.
RG_GLOBAL rg_top_near(rg_top_args a) {
    RG_WAIT();
    __shared__ rg_entry entries[kSlots];
    for (rg_u64 block = blockIdx.x; block < a.lines * a.padded / kSlots; block += gridDim.x) {
        rg_entry* at = (rg_entry*)a.entries + block * kSlots;
        for (unsigned i = threadIdx.x; i < kSlots; i += 256) entries[i] = at[i];
        __syncthreads();
        const bool falls = a.span == a.padded || (block * kSlots & a.span) == 0;
        for (unsigned span = a.span == kSlots ? 2 : kSlots; span <= kSlots; span *= 2)
            for (unsigned stride = span / 2; stride > 0; stride /= 2) {
                for (unsigned p = threadIdx.x; p < kSlots / 2; p += 256) {
                    const unsigned low = p / stride * stride * 2 + p % stride, high = low + stride;
                    const rg_entry x = entries[low], y = entries[high];
                    const bool down = span == kSlots ? falls : (low & span) == 0;
                    if (rg_above(y, x) == down) entries[low] = y, entries[high] = x;
                }
                __syncthreads();
            }
        for (unsigned i = threadIdx.x; i < kSlots; i += 256) at[i] = entries[i];
        __syncthreads();
    }
}
RG_GLOBAL rg_top_far(rg_top_args a) {
    RG_WAIT();
    RG_FOR(rg_u64, p, a.lines * a.padded / 2) {
        const rg_u64 low = p / a.stride * a.stride * 2 + p % a.stride, high = low + a.stride;
        rg_entry* entries = (rg_entry*)a.entries;
        const rg_entry x = entries[low], y = entries[high];
        const bool down = a.span == a.padded || (low & a.span) == 0;
        if (rg_above(y, x) == down) entries[low] = y, entries[high] = x;
    }
}
RG_GLOBAL rg_top_write(rg_top_args a) {
    RG_WAIT();
    RG_FOR(rg_u64, i, a.lines * a.k)
        rg_write(a, i / a.k, i % a.k, ((rg_entry const*)a.entries)[i / a.k * a.padded + i % a.k]);
}
)cuda";

/// Entries of a block in shared memory: 16 KiB of the widest, so that several blocks fit a multiprocessor.
constexpr int64_t kSlots = 1024;

struct Lines {
    int64_t count, size, inner, k, padded;
};

GeneratedLaunch launch_of(Lines const& s, void* function, int64_t blocks, int64_t span = 0, int64_t stride = 0) {
    GeneratedLaunch launch;
    launch.function = function, launch.blocks = blocks, launch.on({0, 1, 2, Address::kWorkspace});
    for (auto word : {s.size, s.inner, s.k, s.count, s.padded, span, stride}) launch.add(word);
    return launch;
}

void add_sort(Launches& launches, Lines const& s, int64_t entry_bytes, Code const& code, std::string const& kind) {
    auto function = [&](char const* name) { return code.function(name, kind, kSortBody); };
    auto total = s.count * s.padded;
    auto all = blocks_for(total, kBlockThreads), pairs = blocks_for(total / 2, kBlockThreads),
         near = blocks_for(total / kSlots, 1);
    launches.list.push_back(launch_of(s, function("rg_top_fill"), all));
    for (auto span = kSlots; span <= s.padded; span *= 2) {
        for (auto stride = span / 2; stride >= kSlots; stride /= 2)
            launches.list.push_back(launch_of(s, function("rg_top_far"), pairs, span, stride));
        launches.list.push_back(launch_of(s, function("rg_top_near"), near, span));
    }
    launches.list.push_back(launch_of(s, function("rg_top_write"), blocks_for(s.count * s.k, kBlockThreads)));
    launches.workspace = static_cast<size_t>(total * entry_bytes);
}

Result<Launches, Rejection> bind_top_k(TopKInfo const& info, BindArgs const& args, Code const& code) {
    auto const& x = *args.inputs[0];
    AxisSplit split(x.dims, info.axis);
    Lines s{split.outer * split.inner, split.size, split.inner, args.outputs[0]->dims[info.axis], 0};
    if (s.size >= kNarrow) return Err{Rejection{"an axis of " + std::to_string(s.size) + " elements, below 2^31"}};
    bool wide = bits_of(x.dtype) == 64;
    auto kind = number_kind(x.dtype) + "typedef " + (wide ? "rg_u64" : "unsigned") + " Key;\n" +
                constant_kind("kLargest", info.largest) + kEntries;
    auto padded = [](int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); };
    Launches launches;
    // One block reads a line several times at a hundredth of the card's bandwidth: few long lines are sorted by all.
    constexpr int64_t kFewLines = 16, kLongLine = 1 << 16;
    if (s.size <= kSlots) {
        s.padded = padded(std::max<int64_t>(s.size, 2));
        launches.list.push_back(
            launch_of(s, code.function("rg_top_short", kind, kShortBody), blocks_for(s.count, kSlots / s.padded)));
    } else if (s.k <= kSlots && (s.count >= kFewLines || s.size <= kLongLine)) {
        s.padded = padded(std::max<int64_t>(s.k, 2));
        launches.list.push_back(
            launch_of(s, code.function("rg_top_select", kind, kSelectBody), blocks_for(s.count, 1)));
    } else {
        s.padded = padded(s.size);
        add_sort(launches, s, wide ? 16 : 8, code, kind);
    }
    return launches;
}

}  // namespace

KernelResult top_k_nvrtc(TopKInfo const& info, Request const& request) {
    return generate(info, "top_k", request, make_top_k_reference, bind_top_k);
}

}  // namespace refactor::kernel::cuda
