#pragma once
#include "common/thread_pool.h"
#include "kernel/kernel.h"
#include "reduce/turned_sets.h"

namespace refactor::kernel {

/// Searches sets of a few rows and columns, which are turned first: columns of all sets are side by side then.
class TurnedSearch {
    int64_t outer_ = 0, inner_ = 1, bytes_of_set_ = 0;
    TurnedSets sets_;

public:
    /// Whether `outer` sets of `size` rows of `inner` columns are worth it: there are enough, and columns do not fill a
    /// vector of `lanes` by themselves. A row costs 20 ns, for a branch or two that are not foreseen.
    static bool is_for(int64_t outer, int64_t size, int64_t inner, int64_t lanes) {
        return outer >= 16 && inner < lanes && size * inner <= (inner == 1 ? 64 : 256);
    }
    TurnedSearch() = default;
    TurnedSearch(int64_t outer, int64_t size, int64_t inner, int64_t element_bytes)
        : outer_(outer),
          inner_(inner),
          bytes_of_set_(size * inner * element_bytes),
          sets_(size * inner, inner, element_bytes, sizeof(int64_t), Isa::Avx2) {}

    /// Groups of sets.
    int64_t items() const { return (outer_ + sets_.most() - 1) / sets_.most(); }
    int64_t sets() const { return sets_.most(); }
    size_t scratch_bytes() const { return sets_.turned_bytes() + sets_.result_bytes(); }
    /// `search(turned, y, columns)` finds the positions of so many columns, which have that stride.
    template <class F>
    void run(void const* x, int64_t* y, int64_t item, std::byte* scratch, F const& search) const {
        auto first = item * sets_.most(), sets = std::min(sets_.most(), outer_ - first);
        auto* results = reinterpret_cast<int64_t*>(scratch + sets_.turned_bytes());
        y += first * inner_;
        sets_.turn(static_cast<std::byte const*>(x) + first * bytes_of_set_, sets, scratch);
        search(scratch, inner_ == 1 ? y : results, inner_ * sets);
        if (inner_ > 1) sets_.turn_back(results, sets, y);
    }
};

}  // namespace refactor::kernel
