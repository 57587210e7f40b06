#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace refactor::mem_manager {

/// What is placed as one: a block, its aliases, and the blocks that take its memory over one after the other.
struct Chain {
    size_t bytes = 0;  ///< a multiple of 64
    uint32_t first = 0, last = 0;
    /// The last taker starts and ends in the same step: another one could not come after it.
    bool closed = false;
};

enum class PackingOrder {
    Start,  ///< by first step: what an allocator that knows the future of no block would meet
    Size,   ///< largest first ("greedy by size", Pisarchyk & Lee, arXiv:2001.03288)
    Area,   ///< largest bytes × steps first: long-lived blocks settle at the bottom
};

/// Places chains one by one, each in the tightest gap between those already placed that are in use at the same time.
///
/// With a `capacity`, the room up to it is a gap too, and a chain goes to that end of its gap which is an end of the
/// arena: neighbours in a chain of operators then lie alternately at the bottom and at the top, which needs no more
/// than the lower bound whatever their sizes. Chains that do not fit go above it.
///
/// The pairs in use at the same time are found once by a sweep. Where there are more than `kDense` of them a chain they
/// are not kept, and a run looks at all placed chains instead.
class Packing {
    static constexpr size_t kDense = 128;

    std::vector<Chain> const& chains_;
    std::vector<uint32_t> by_start_;
    std::vector<uint32_t> starts_, neighbours_;  ///< rows of neighbours, empty if dense

    struct Span {
        size_t begin, end;
    };
    void find_neighbours();
    std::vector<uint32_t> ordered(PackingOrder order) const;
    static size_t tightest_gap(std::vector<Span> const& taken, size_t bytes, size_t capacity);
    void collect(uint32_t chain, std::vector<size_t> const& offsets, std::vector<Span>& taken) const;

public:
    /// Refers to `chains`.
    explicit Packing(std::vector<Chain> const& chains);
    /// So many pairs that a run is O(n²).
    bool dense() const { return starts_.empty(); }
    /// Offsets by chain; `peak` becomes the size of the arena. `capacity` 0: grow from the bottom only.
    std::vector<size_t> run(PackingOrder order, size_t capacity, size_t& peak) const;
};

}  // namespace refactor::mem_manager
