#include "cumsum/cumsum.h"

#include "cuda/generated.h"
#include "cuda/movement_kernels.h"

namespace refactor::kernel::cuda {

namespace {

// A line is one run along the axis, a part of it what one block (lines that are contiguous) or thread (others) takes.
// `carry` is the total of all parts before, from the totals that the first launch has written.
constexpr char const* kScanBody = R"cuda(
RG_FN Sum rg_join(Sum a, Sum b) { return kProduct ? rg_Mul(a, b) : rg_Add(a, b); }
constexpr int kLine = 256 * kItems;
struct rg_scan_args { rg_u64 x, y, totals, size, inner, part, lines, parts; };

// Result of the threads before this one; `total` of all.
RG_FN Sum rg_scan_block(Sum value, Sum& total) {
    __shared__ Sum warps[8];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Sum sum = value;
    for (int step = 1; step < 32; step *= 2) {
        Sum other = __shfl_up_sync(0xffffffffu, sum, step);
        if (lane >= step) sum = rg_join(other, sum);
    }
    Sum before = __shfl_up_sync(0xffffffffu, sum, 1);
    if (lane == 0) before = (Sum)kProduct;
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    Sum carry = (Sum)kProduct;
    total = (Sum)kProduct;
    for (int w = 0; w < 8; ++w) {
        if (w == warp) carry = total;
        total = rg_join(total, warps[w]);
    }
    __syncthreads();
    return rg_join(carry, before);
}
RG_FN Sum rg_carry(rg_scan_args const& a, rg_u64 line, rg_u64 part) {
    Sum carry = (Sum)kProduct;
    if (!kTotals)
        for (rg_u64 k = 0; k < part; ++k) carry = rg_join(carry, ((Sum const*)a.totals)[k * a.lines + line]);
    return carry;
}
RG_GLOBAL rg_scan_contiguous(rg_scan_args a) {
    RG_WAIT();
    for (rg_u64 item = blockIdx.x; item < a.lines * a.parts; item += gridDim.x) {
        const rg_u64 line = item / a.parts, part = item % a.parts;
        const rg_u64 begin = part * a.part, end = rg_least(begin + a.part, a.size);
        Sum carry = rg_carry(a, line, part);
        for (rg_u64 base = begin; base < end; base += kLine) {
            Sum values[kItems], own = (Sum)kProduct, total;
            const rg_u64 first = base + threadIdx.x * kItems;
#pragma unroll
            for (int k = 0; k < kItems; ++k) {
                const rg_u64 i = first + k, at = line * a.size + (kReverse ? a.size - 1 - i : i);
                values[k] = i < end ? (Sum)rg_load(((Stored const*)a.x)[at]) : (Sum)kProduct;
                own = rg_join(own, values[k]);
            }
            Sum sum = rg_join(carry, rg_scan_block(own, total));
            carry = rg_join(carry, total);
#pragma unroll
            for (int k = 0; k < kItems && !kTotals; ++k) {
                const rg_u64 i = first + k, at = line * a.size + (kReverse ? a.size - 1 - i : i);
                const Sum next = rg_join(sum, values[k]);
                if (i < end) ((Stored*)a.y)[at] = rg_store((Real)(kExclusive ? sum : next));
                sum = next;
            }
        }
        if (kTotals && threadIdx.x == 0) ((Sum*)a.totals)[part * a.lines + line] = carry;
    }
}
RG_GLOBAL rg_scan_strided(rg_scan_args a) {
    RG_WAIT();
    RG_FOR(rg_u64, item, a.lines * a.parts) {
        const rg_u64 line = item % a.lines, part = item / a.lines;
        const rg_u64 begin = part * a.part, end = rg_least(begin + a.part, a.size);
        const rg_u64 first = line / a.inner * a.size * a.inner + line % a.inner;
        Sum sum = rg_carry(a, line, part);
#pragma unroll 4
        for (rg_u64 i = begin; i < end; ++i) {
            const rg_u64 at = first + (kReverse ? a.size - 1 - i : i) * a.inner;
            const Sum next = rg_join(sum, (Sum)rg_load(((Stored const*)a.x)[at]));
            if (!kTotals) ((Stored*)a.y)[at] = rg_store((Real)(kExclusive ? sum : next));
            sum = next;
        }
        if (kTotals) ((Sum*)a.totals)[part * a.lines + line] = sum;
    }
}
)cuda";

constexpr int64_t kItems = 4;

/// Parts that lines are cut into so that there are enough blocks (threads) for a card: `least` elements pay for the
/// second pass over the data. A part reads the totals of all before, so there are not too many.
int64_t parts_of(int64_t lines, int64_t size, int64_t wanted, int64_t least) {
    constexpr int64_t kMost = 256;
    auto most = std::min(kMost, std::max<int64_t>(1, size / least));
    return std::clamp<int64_t>(wanted / std::max<int64_t>(1, lines), 1, most);
}

/// What sums are kept in: the reference's types, but f32 for f32 and halves.
std::string sum_kind(DataType type) {
    auto const* name = type == DataType::F64                                                      ? "double"
                       : type == DataType::F32 || type == DataType::F16 || type == DataType::BF16 ? "float"
                                                                                                  : "rg_u64";
    return std::string("typedef ") + name + " Sum;\n";
}

Result<Launches, Rejection> bind_cumsum(CumSumInfo const& info, BindArgs const& args, Code const& code) {
    auto const& x = *args.inputs[0];
    AxisSplit split(x.dims, info.axis);
    bool contiguous = split.inner == 1;
    auto lines = split.outer * split.inner;
    auto parts = contiguous ? parts_of(lines, split.size, 512, 8 * kItems * kBlockThreads)
                            : parts_of(lines, split.size, 1 << 16, 128);
    auto part = (split.size + parts - 1) / std::max<int64_t>(1, parts);
    if (contiguous) part = (part + kItems * kBlockThreads - 1) / (kItems * kBlockThreads) * (kItems * kBlockThreads);
    parts = part ? (split.size + part - 1) / part : 0;
    auto kind = number_kind(x.dtype) + sum_kind(x.dtype) + constant_kind("kItems", kItems) +
                constant_kind("kProduct", info.product) + constant_kind("kExclusive", info.exclusive) +
                constant_kind("kReverse", info.reverse);
    Launches launches;
    launches.in_place = 1;
    for (bool totals : {true, false}) {
        if (totals && parts <= 1) continue;
        GeneratedLaunch launch;
        launch.function = code.function(contiguous ? "rg_scan_contiguous" : "rg_scan_strided",
                                        kind + constant_kind("kTotals", totals), kScanBody);
        launch.blocks = blocks_for(lines * parts, contiguous ? 1 : kBlockThreads);
        launch.on({0, 1, Address::kWorkspace});
        for (int64_t word : {split.size, split.inner, part, lines, parts}) launch.add(word);
        launches.list.push_back(std::move(launch));
    }
    if (parts > 1) launches.workspace = static_cast<size_t>(lines * parts) * sizeof(double);
    return launches;
}

}  // namespace

KernelResult cumsum_nvrtc(CumSumInfo const& info, Request const& request) {
    return generate(info, "cumsum", request, make_cumsum_reference, bind_cumsum);
}

}  // namespace refactor::kernel::cuda
