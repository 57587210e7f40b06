#include "cuda/selection.h"

#include "cuda/rows_source.h"
#include "kernel/ops/movement.h"

namespace refactor::kernel::cuda {

namespace {

/// Words of a block: each warp has kStrips times 32 that lie together.
constexpr int64_t kStrips = 16, kPart = 8 * 32 * kStrips;

constexpr char const* kVotes = R"cuda(
struct rg_select_args { rg_u64 words, starts, target, count, mask, total; rg_axis axes[kRank]; };
struct rg_part { unsigned votes[kStrips], own, before; rg_u64 first; };
RG_FN rg_part rg_vote(rg_select_args const& a, unsigned* warps) {
    rg_part part;
    const unsigned warp = threadIdx.x / 32;
    part.first = ((rg_u64)blockIdx.x * 8 + warp) * 32 * kStrips;
    part.own = part.before = 0;
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
        const rg_u64 i = part.first + 32 * s + threadIdx.x % 32;
        const bool selected = i < a.count && (((Word const*)a.words)[i] & (Word)a.mask) != 0;
        part.votes[s] = __ballot_sync(0xffffffffu, selected);
        part.own += __popc(part.votes[s]);
    }
    if (threadIdx.x % 32 == 0) warps[warp] = part.own;
    __syncthreads();
    for (unsigned w = 0; w < warp; ++w) part.before += warps[w];
    return part;
}
// `put(position, rank)` for each selected word.
template <class Put> RG_FN void rg_for_selected(rg_select_args const& a, unsigned* warps, Put put) {
    const rg_part part = rg_vote(a, warps);
    const unsigned lane = threadIdx.x % 32;
    rg_u64 rank = ((rg_u64 const*)a.starts)[blockIdx.x] + part.before;
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
        if (part.votes[s] >> lane & 1)
            put(part.first + 32 * s + lane, rank + __popc(part.votes[s] & ((1u << lane) - 1)));
        rank += __popc(part.votes[s]);
    }
}
)cuda";

constexpr char const* kCountBody = R"cuda(
RG_GLOBAL rg_select_count(RG_ARGUMENT rg_select_args a) {
    RG_WAIT();
    __shared__ unsigned warps[8];
    const rg_part part = rg_vote(a, warps);
    if (threadIdx.x == 255) ((rg_u64*)a.starts)[blockIdx.x] = part.before + part.own;
}
)cuda";

constexpr char const* kPositionsBody = R"cuda(
RG_GLOBAL rg_select_positions(RG_ARGUMENT rg_select_args a) {
    RG_WAIT();
    __shared__ unsigned warps[8];
    rg_for_selected(a, warps, [&](rg_u64 position, rg_u64 rank) { ((rg_u64*)a.target)[rank] = position; });
}
)cuda";

constexpr char const* kCoordinatesBody = R"cuda(
RG_GLOBAL rg_select_coordinates(RG_ARGUMENT rg_select_args a) {
    RG_WAIT();
    __shared__ unsigned warps[8];
    rg_for_selected(a, warps, [&](rg_u64 position, rg_u64 rank) {
        Index rest = (Index)position;
#pragma unroll
        for (int axis = kRank - 1; axis >= 0; --axis)
            ((rg_u64*)a.target)[axis * a.total + rank] = rg_split(rest, a.axes[axis]);
    });
}
)cuda";

// One block: a thread has as many counts in a row as every other.
constexpr char const* kSumBody = R"cuda(
struct rg_sum_args { rg_u64 counts, count; };
RG_GLOBAL rg_sum_up(rg_sum_args a) {
    RG_WAIT();
    __shared__ rg_u64 sums[256];
    rg_u64* counts = (rg_u64*)a.counts;
    const unsigned thread = threadIdx.x;
    const rg_u64 each = (a.count + 255) / 256, begin = rg_least(thread * each, a.count);
    const rg_u64 end = rg_least(begin + each, a.count);
    rg_u64 own = 0;
    for (rg_u64 i = begin; i < end; ++i) own += counts[i];
    sums[thread] = own;
    __syncthreads();
    for (unsigned step = 1; step < 256; step *= 2) {
        const rg_u64 more = thread >= step ? sums[thread - step] : 0;
        __syncthreads();
        sums[thread] += more;
        __syncthreads();
    }
    rg_u64 before = sums[thread] - own;
    for (rg_u64 i = begin; i < end; ++i) {
        const rg_u64 count = counts[i];
        counts[i] = before, before += count;
    }
    if (thread == 255) counts[a.count] = before;
}
)cuda";

}  // namespace

int64_t sum_up(DeviceCall& call, Code const& code, int64_t* counts, int64_t count) {
    GeneratedLaunch launch;
    launch.function = code.function("rg_sum_up", {}, kSumBody);
    launch.blocks = 1, launch.on({0}), launch.add(count);
    call.launch(launch, {counts});
    return call.read(counts + count);
}

GeneratedLaunch Selection::launch_of(char const* name, std::string const& kind, char const* body) const {
    GeneratedLaunch launch;
    launch.function =
        code_.function(name, kind + word_kind("Word", word_bytes_) + constant_kind("kStrips", kStrips) + kVotes, body);
    launch.blocks = static_cast<uint32_t>(ceil_div(count_, kPart));
    launch.on({0, 1, 2}), launch.add(count_), launch.add(mask_), launch.add(total_);
    return launch;
}

Selection::Selection(DeviceCall& call, Code const& code, void const* words, int64_t count, int64_t word_bytes,
                     uint64_t mask)
    : call_(call), code_(code), words_(words), count_(count), word_bytes_(word_bytes), mask_(mask) {
    if (!count) return;
    starts_ = call.scratch_of<int64_t>(ceil_div(count, kPart) + 1);
    auto launch = launch_of("rg_select_count", constant_kind("kRank", 1), kCountBody);
    launch.add_axis(1);
    call.launch(launch, {words, starts_, nullptr});
    total_ = sum_up(call, code, starts_, ceil_div(count, kPart));
}

void Selection::write_positions(int64_t* target) const {
    if (!total_) return;
    auto launch = launch_of("rg_select_positions", constant_kind("kRank", 1), kPositionsBody);
    launch.add_axis(1);
    call_.launch(launch, {words_, starts_, target});
}

void Selection::write_coordinates(int64_t* target, Dims const& sizes) const {
    if (!total_ || sizes.empty()) return;
    auto kind = constant_kind("kRank", static_cast<int64_t>(sizes.size())) + index_kind(count_ < kNarrow);
    auto launch = launch_of("rg_select_coordinates", kind, kCoordinatesBody);
    launch.add_axes(sizes);
    call_.launch(launch, {words_, starts_, target});
}

Taker::Taker(mem_manager::Device& place, DataType dtype)
    : gather_(kernel_for(place, GatherInfo{1}, {row_major(dtype, {-1, -1, -1}), row_major(DataType::I64, {-1})},
                         {row_major(dtype, {-1, -1, -1})})) {}

void Taker::take(DeviceCall& call, Argument const& x, Argument const& positions, Argument const& y) const {
    if (y.type.count() > 0) call.run(*gather_, {x, positions}, {y});
}

}  // namespace refactor::kernel::cuda
