#pragma once
#include <cstdint>

namespace refactor::kernel {

/// What an element must be to come among the first: at least `limit`, or above it if `strict`. NaN passes always, and
/// everything does where the limit is NaN. With `smallest` elements and limit count negated.
struct TopKFilter {
    bool smallest;
    bool strict;
    float limit;
};

/// A limit that at least `k` of the `size` elements pass (not strictly): as each of `kTopKLanes` lanes has a greatest
/// element, the k-th of those is one.
constexpr int64_t kTopKLanes = 32;
float top_k_limit_avx2(float const* x, int64_t size, int64_t k, bool smallest);

/// Writes the indices of elements that pass to `found`, from element `begin` on, up to `room` (at least 8) of them;
/// `count` is how many. Returns the element to go on with.
int64_t top_k_scan_avx2(float const* x, int64_t begin, int64_t size, TopKFilter const& filter, int32_t* found,
                        int64_t room, int64_t& count);

}  // namespace refactor::kernel
