#pragma once
#include "kernel/kernel.h"

#include <span>
#include <vector>

namespace refactor::kernel::movement {

/// Copies channels between tensors in equal blocked layouts where they do not fill whole blocks: each block of the
/// target takes lanes from one block of a source, or from several.
///
/// The channels of all sources, one behind the other, count from 0; the target's are those from `first` on.
class ChannelCopy {
    /// Lanes that lie side by side on both sides.
    struct Run {
        size_t source;
        int64_t from_block, from_lane, to_lane, lanes;
    };
    int64_t images_, positions_, block_, lane_bytes_;
    std::vector<int64_t> source_blocks_;
    std::vector<std::vector<Run>> runs_;  ///< of every block of the target

    int64_t block_bytes() const { return positions_ * block_ * lane_bytes_; }
    void copy_block(void const* const* sources, std::byte* y, int64_t image, size_t index) const;

public:
    ChannelCopy(TensorDesc const& y, std::span<TensorDesc const* const> sources, int64_t first = 0);

    /// Of all images.
    int64_t blocks() const { return images_ * std::ssize(runs_); }
    int64_t bytes() const { return blocks() * block_bytes(); }
    /// Writes the blocks [begin, end) of `y`, with zeros in the lanes behind the last channel.
    void run(void const* const* sources, void* y, int64_t begin, int64_t end) const;
};

}  // namespace refactor::kernel::movement
