#include "mem_manager/memory_planner.h"

#include <algorithm>

namespace refactor::mem_manager {

namespace {

constexpr size_t kAlignment = 64;

size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

/// What is placed as one: a block and those that take its memory over, one after the other.
struct Chain {
    size_t bytes = 0;
    uint32_t first = 0, last = 0;
    size_t offset = 0;
};

struct Chains {
    std::vector<Chain> chains;
    std::vector<uint32_t> of;  ///< by block
};

Chains chain_up(std::span<Lifetime const> lifetimes) {
    Chains result;
    std::vector<bool> taken(lifetimes.size());
    result.of.resize(lifetimes.size());
    for (uint32_t i = 0; i < lifetimes.size(); ++i) {
        auto const& life = lifetimes[i];
        if (life.reuse != kNoReuse && !taken[life.reuse] && lifetimes[life.reuse].last_step == life.first_step) {
            taken[life.reuse] = true;
            auto chain = result.of[i] = result.of[life.reuse];
            result.chains[chain].last = life.last_step;
            result.chains[chain].bytes = std::max(result.chains[chain].bytes, rounded(life.bytes));
        } else {
            result.of[i] = static_cast<uint32_t>(result.chains.size());
            result.chains.push_back({rounded(life.bytes), life.first_step, life.last_step, 0});
        }
    }
    return result;
}

size_t most_live_bytes(std::vector<Chain> const& chains) {
    uint32_t steps = 0;
    for (auto const& chain : chains) steps = std::max(steps, chain.last + 1);
    std::vector<int64_t> change(steps + 1);
    for (auto const& chain : chains) {
        change[chain.first] += static_cast<int64_t>(chain.bytes);
        change[chain.last + 1] -= static_cast<int64_t>(chain.bytes);
    }
    int64_t live = 0, most = 0;
    for (auto delta : change) most = std::max(most, live += delta);
    return static_cast<size_t>(most);
}

/// Places chains in `order`, each in the tightest gap between those that are already placed and live at the same time.
class Placement {
    std::vector<Chain>& chains_;
    std::vector<uint32_t> placed_;  ///< by ascending offset

    size_t tightest_gap(Chain const& chain) const {
        size_t end = 0, best = 0, best_size = SIZE_MAX;
        for (auto i : placed_) {
            auto const& other = chains_[i];
            if (other.last < chain.first || chain.last < other.first) continue;
            if (other.offset >= end + chain.bytes && other.offset - end < best_size)
                best = end, best_size = other.offset - end;
            end = std::max(end, other.offset + other.bytes);
        }
        return best_size == SIZE_MAX ? end : best;
    }

public:
    explicit Placement(std::vector<Chain>& chains) : chains_(chains) { placed_.reserve(chains.size()); }

    size_t run(std::vector<uint32_t> const& order) {
        size_t peak = 0;
        for (auto i : order) {
            auto& chain = chains_[i];
            if (!chain.bytes) continue;
            chain.offset = tightest_gap(chain);
            peak = std::max(peak, chain.offset + chain.bytes);
            auto position = std::upper_bound(placed_.begin(), placed_.end(), chain.offset,
                                             [&](size_t offset, uint32_t k) { return offset < chains_[k].offset; });
            placed_.insert(position, i);
        }
        return peak;
    }
};

}  // namespace

MemoryPlan plan_memory(std::span<Lifetime const> lifetimes) {
    auto [chains, of] = chain_up(lifetimes);
    MemoryPlan plan;
    plan.lower_bound = most_live_bytes(chains);
    std::vector<uint32_t> order(chains.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    // Chains come in order of their first step: the second choice, usually better for long chains of equal blocks.
    auto by_start = chains;
    plan.peak_bytes = Placement(by_start).run(order);
    if (plan.peak_bytes > plan.lower_bound) {
        std::stable_sort(order.begin(), order.end(),
                         [&](uint32_t a, uint32_t b) { return chains[a].bytes > chains[b].bytes; });
        auto peak = Placement(chains).run(order);
        if (peak < plan.peak_bytes)
            plan.peak_bytes = peak;
        else
            chains = std::move(by_start);
    } else {
        chains = std::move(by_start);
    }
    plan.offsets.reserve(lifetimes.size());
    for (auto chain : of) plan.offsets.push_back(chains[chain].offset);
    return plan;
}

}  // namespace refactor::mem_manager
