#pragma once
#include "common/cpu_features.h"
#include "movement/shuffle_table.h"

#include <memory>
#include <span>

namespace refactor::kernel::movement {

/// Blocks whose elements are moved within registers; see `ShuffleTable`.
class BlockShuffle {
public:
    BlockShuffle() = default;
    /// The target has elements of `element` bytes in row-major order of `sizes`, which the source has `steps` bytes of
    /// any sign apart; it has no function where the instruction set has none for such a block.
    BlockShuffle(std::span<int64_t const> sizes, std::span<int64_t const> steps, int64_t element, Isa isa);
    explicit operator bool() const { return function_ != nullptr; }
    /// Bytes from the first element of a block of the source to the one of the lowest address, at most 0.
    int64_t begin() const { return begin_; }
    /// `src` is where a block begins.
    void run(std::byte const* src, int64_t src_step, std::byte* dst, int64_t dst_step, int64_t count) const {
        function_(*table_, src, src_step, dst, dst_step, count);
    }

private:
    std::shared_ptr<ShuffleTable const> table_;
    ShuffleFunction function_ = nullptr;
    int64_t begin_ = 0;
};

void shuffle_blocks_avx2(ShuffleTable const& table, std::byte const* src, int64_t src_step, std::byte* dst,
                         int64_t dst_step, int64_t count);
void shuffle_blocks_avx512(ShuffleTable const& table, std::byte const* src, int64_t src_step, std::byte* dst,
                           int64_t dst_step, int64_t count);

}  // namespace refactor::kernel::movement
