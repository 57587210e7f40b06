#include "packing.h"

#include <algorithm>
#include <numeric>

namespace refactor::mem_manager {

namespace {

constexpr size_t kUnplaced = SIZE_MAX;

}  // namespace

Packing::Packing(std::vector<Chain> const& chains) : chains_(chains), by_start_(chains.size()) {
    std::iota(by_start_.begin(), by_start_.end(), 0u);
    auto starts_earlier = [&](uint32_t a, uint32_t b) { return chains[a].first < chains[b].first; };
    if (!std::is_sorted(by_start_.begin(), by_start_.end(), starts_earlier))
        std::stable_sort(by_start_.begin(), by_start_.end(), starts_earlier);
    find_neighbours();
}

void Packing::find_neighbours() {
    struct Pair {
        uint32_t a, b;
    };
    std::vector<Pair> pairs;
    pairs.reserve(chains_.size() * 8);
    std::vector<uint32_t> active;
    starts_.assign(chains_.size() + 1, 0);
    for (auto i : by_start_) {
        if (!chains_[i].bytes) continue;
        size_t kept = 0;
        for (auto other : active) {
            if (chains_[other].last < chains_[i].first) continue;
            active[kept++] = other;
            pairs.push_back({other, i});
            ++starts_[other + 1], ++starts_[i + 1];
        }
        active.resize(kept);
        active.push_back(i);
        if (pairs.size() > kDense * chains_.size()) {
            starts_.clear();
            return;
        }
    }
    std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
    neighbours_.resize(starts_.back());
    auto next = starts_;
    for (auto [a, b] : pairs) neighbours_[next[a]++] = b, neighbours_[next[b]++] = a;
}

std::vector<uint32_t> Packing::ordered(PackingOrder order) const {
    if (order == PackingOrder::Start) return by_start_;
    struct Keyed {
        double key;
        uint32_t chain;
    };
    std::vector<Keyed> keyed;
    keyed.reserve(chains_.size());
    for (auto i : by_start_) {
        auto steps = order == PackingOrder::Area ? chains_[i].last - chains_[i].first + 1 : 1;
        keyed.push_back({static_cast<double>(chains_[i].bytes) * steps, i});
    }
    std::stable_sort(keyed.begin(), keyed.end(), [](Keyed const& a, Keyed const& b) { return a.key > b.key; });
    std::vector<uint32_t> result;
    result.reserve(keyed.size());
    for (auto const& entry : keyed) result.push_back(entry.chain);
    return result;
}

/// `taken` by ascending begin; spans may overlap.
size_t Packing::tightest_gap(std::vector<Span> const& taken, size_t bytes, size_t capacity) {
    size_t end = 0, best = kUnplaced, best_size = SIZE_MAX;
    for (auto [begin, after] : taken) {
        if (begin >= end + bytes && begin - end < best_size) best = end, best_size = begin - end;
        end = std::max(end, after);
    }
    if (capacity >= end + bytes && capacity - end < best_size) return end ? capacity - bytes : 0;
    return best == kUnplaced ? end : best;
}

/// The spans of the neighbours of `chain` that are placed, by ascending begin.
void Packing::collect(uint32_t chain, std::vector<size_t> const& offsets, std::vector<Span>& taken) const {
    taken.clear();
    for (auto k = starts_[chain]; k < starts_[chain + 1]; ++k) {
        auto other = neighbours_[k];
        if (offsets[other] != kUnplaced) taken.push_back({offsets[other], offsets[other] + chains_[other].bytes});
    }
    std::sort(taken.begin(), taken.end(), [](Span a, Span b) { return a.begin < b.begin; });
}

std::vector<size_t> Packing::run(PackingOrder order, size_t capacity, size_t& peak) const {
    std::vector<size_t> offsets(chains_.size(), kUnplaced);
    std::vector<uint32_t> placed;  // by ascending offset; only if dense
    std::vector<Span> taken;
    peak = 0;
    for (auto i : ordered(order)) {
        auto const& chain = chains_[i];
        if (!chain.bytes) {
            offsets[i] = 0;
            continue;
        }
        if (!dense()) {
            collect(i, offsets, taken);
        } else {
            taken.clear();
            for (auto other : placed)
                if (chains_[other].last >= chain.first && chain.last >= chains_[other].first)
                    taken.push_back({offsets[other], offsets[other] + chains_[other].bytes});
        }
        offsets[i] = tightest_gap(taken, chain.bytes, capacity);
        peak = std::max(peak, offsets[i] + chain.bytes);
        if (dense())
            placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                           [&](uint32_t a, uint32_t b) { return offsets[a] < offsets[b]; }),
                          i);
    }
    return offsets;
}

}  // namespace refactor::mem_manager
