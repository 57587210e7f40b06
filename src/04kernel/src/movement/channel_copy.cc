#include "movement/channel_copy.h"

#include "movement/row_pieces.h"

#include <algorithm>
#include <cstring>

namespace refactor::kernel::movement {

ChannelCopy::ChannelCopy(TensorDesc const& y, std::span<TensorDesc const* const> sources, int64_t first)
    : images_(y.dims[0]), positions_(1), block_(block_of(y.layout)), lane_bytes_(element_bytes(y.dtype)) {
    for (size_t i = 2; i < y.dims.size(); ++i) positions_ *= y.dims[i];
    runs_.resize(static_cast<size_t>((y.dims[1] + block_ - 1) / block_));
    // Of the target; what lies before it is negative.
    int64_t to = -first;
    for (size_t i = 0; i < sources.size(); ++i) {
        auto channels = sources[i]->dims[1];
        source_blocks_.push_back((channels + block_ - 1) / block_);
        auto from = std::clamp<int64_t>(-to, 0, channels), end = std::min(channels, y.dims[1] - to);
        for (; from < end;) {
            auto at = to + from;
            auto lanes = std::min({end - from, block_ - from % block_, block_ - at % block_});
            runs_[static_cast<size_t>(at / block_)].push_back({i, from / block_, from % block_, at % block_, lanes});
            from += lanes;
        }
        to += channels;
    }
}

void ChannelCopy::copy_block(void const* const* sources, std::byte* y, int64_t image, size_t index) const {
    int64_t filled = 0;
    auto const step = block_ * lane_bytes_;
    for (auto const& run : runs_[index]) {
        auto* x = static_cast<std::byte const*>(sources[run.source]) +
                  (image * source_blocks_[run.source] + run.from_block) * block_bytes() + run.from_lane * lane_bytes_;
        filled += run.lanes;
        auto bytes = run.lanes * lane_bytes_;
        if (run.lanes == block_)
            std::memcpy(y, x, static_cast<size_t>(block_bytes()));
        else
            copy_runs_of(bytes, Isa::Scalar)(x, step, y + run.to_lane * lane_bytes_, step, positions_, bytes);
    }
    for (int64_t i = 0; filled < block_ && i < positions_; ++i)
        std::memset(y + i * step + filled * lane_bytes_, 0, static_cast<size_t>((block_ - filled) * lane_bytes_));
}

void ChannelCopy::run(void const* const* sources, void* y, int64_t begin, int64_t end) const {
    auto blocks = std::ssize(runs_);
    for (auto i = begin; i < end; ++i)
        copy_block(sources, static_cast<std::byte*>(y) + i * block_bytes(), i / blocks,
                   static_cast<size_t>(i % blocks));
}

}  // namespace refactor::kernel::movement
