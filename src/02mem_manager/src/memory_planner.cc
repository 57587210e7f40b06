#include "mem_manager/memory_planner.h"

#include "allocators.h"
#include "common/error.h"
#include "packing.h"

#include <algorithm>
#include <numeric>

namespace refactor::mem_manager {

namespace {

/// What is placed as one, and the chain of each block.
struct Chains {
    std::vector<Chain> chains;
    std::vector<uint32_t> of;
};

/// The block that `block` is another name of, in the end.
uint32_t root_of(std::span<Lifetime const> lifetimes, uint32_t block) {
    for (size_t hops = 0; lifetimes[block].alias != kNoAlias; ++hops) {
        ensure(hops < lifetimes.size(), "plan_memory: aliases form a circle");
        block = lifetimes[block].alias;
    }
    return block;
}

void check(std::span<Lifetime const> lifetimes) {
    for (auto const& life : lifetimes) {
        ensure(life.first_step <= life.last_step, "plan_memory: a lifetime ends before it starts");
        ensure(life.reuse == kNoReuse || life.reuse < lifetimes.size(), "plan_memory: no such block to reuse");
        ensure(life.alias == kNoAlias || life.alias < lifetimes.size(), "plan_memory: no such block to alias");
    }
}

/// Aliases joined: one entry for each block, of which those of roots count.
std::vector<Chain> join_aliases(std::span<Lifetime const> lifetimes, std::vector<uint32_t>& roots) {
    std::vector<Chain> joined;
    joined.reserve(lifetimes.size());
    for (auto const& life : lifetimes) joined.push_back({round_to_line(life.bytes), life.first_step, life.last_step});
    roots.resize(lifetimes.size());
    for (uint32_t i = 0; i < lifetimes.size(); ++i) {
        auto root = roots[i] = root_of(lifetimes, i);
        if (root == i) continue;
        joined[root].bytes = std::max(joined[root].bytes, joined[i].bytes);
        joined[root].first = std::min(joined[root].first, joined[i].first);
        joined[root].last = std::max(joined[root].last, joined[i].last);
    }
    return joined;
}

Chains chain_up(std::span<Lifetime const> lifetimes) {
    std::vector<uint32_t> roots;
    auto joined = join_aliases(lifetimes, roots);
    Chains result;
    constexpr uint32_t kNone = UINT32_MAX;
    result.of.assign(lifetimes.size(), kNone);
    result.chains.reserve(lifetimes.size());
    // The chain whose memory a block can take over: its last owner is the block named, and ends where this one starts.
    auto free_chain = [&](Lifetime const& life, Chain const& block) {
        if (life.reuse == kNoReuse || block.first != life.first_step) return kNone;
        auto owner = roots[life.reuse];
        auto chain = result.of[owner];
        if (chain == kNone || joined[owner].last != block.first || joined[owner].first == block.first) return kNone;
        return result.chains[chain].last == block.first && !result.chains[chain].closed ? chain : kNone;
    };
    for (uint32_t i = 0; i < lifetimes.size(); ++i) {
        if (roots[i] != i) continue;
        auto chain = free_chain(lifetimes[i], joined[i]);
        if (chain != kNone) {
            auto& taken = result.chains[chain];
            taken.bytes = std::max(taken.bytes, joined[i].bytes);
            taken.last = joined[i].last;
            taken.closed = joined[i].first == joined[i].last;
        } else {
            chain = static_cast<uint32_t>(result.chains.size());
            result.chains.push_back(joined[i]);
        }
        result.of[i] = chain;
    }
    for (uint32_t i = 0; i < lifetimes.size(); ++i) result.of[i] = result.of[roots[i]];
    return result;
}

size_t most_live_bytes(std::vector<Chain> const& chains) {
    uint32_t steps = 0;
    for (auto const& chain : chains) steps = std::max(steps, chain.last + 1);
    std::vector<size_t> starts(steps), ends(steps);
    for (auto const& chain : chains) starts[chain.first] += chain.bytes, ends[chain.last] += chain.bytes;
    size_t live = 0, most = 0;
    for (uint32_t step = 0; step < steps; ++step) {
        most = std::max(most, live += starts[step]);
        live -= ends[step];
    }
    return most;
}

struct Attempt {
    PackingOrder order;
    bool two_sided;
};
/// Tried in this order until one reaches the lower bound; the cheapest, which most networks need no more than, first.
constexpr Attempt kAttempts[] = {{PackingOrder::Start, false},
                                 {PackingOrder::Start, true},
                                 {PackingOrder::Size, false},
                                 {PackingOrder::Size, true},
                                 {PackingOrder::Area, false}};

}  // namespace

MemoryPlan plan_memory(std::span<Lifetime const> lifetimes) {
    check(lifetimes);
    auto [chains, of] = chain_up(lifetimes);
    MemoryPlan plan;
    plan.lower_bound = most_live_bytes(chains);
    Packing packing(chains);
    std::vector<size_t> offsets;
    plan.peak_bytes = SIZE_MAX;
    for (auto [order, two_sided] : kAttempts) {
        if (packing.dense() && two_sided) continue;
        size_t peak = 0;
        auto attempt = packing.run(order, two_sided ? plan.lower_bound : 0, peak);
        if (peak < plan.peak_bytes) plan.peak_bytes = peak, offsets = std::move(attempt);
        if (plan.peak_bytes == plan.lower_bound) break;
    }
    plan.offsets.reserve(lifetimes.size());
    for (auto chain : of) plan.offsets.push_back(offsets[chain]);
    return plan;
}

}  // namespace refactor::mem_manager
