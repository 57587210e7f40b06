#include "movement/channel_copy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace refactor::kernel::movement {

namespace {

template <int n>
void copy_lanes(float const* x, float* y, int64_t positions, int64_t step) {
    for (int64_t i = 0; i < positions; ++i) std::memcpy(y + i * step, x + i * step, n * sizeof(float));
}

template <int... n>
constexpr auto copies(std::integer_sequence<int, n...>) {
    return std::array{copy_lanes<n + 1>...};
}
constexpr auto kCopies = copies(std::make_integer_sequence<int, 16>());

}  // namespace

ChannelCopy::ChannelCopy(TensorDesc const& y, std::span<TensorDesc const* const> sources, int64_t first)
    : images_(y.dims[0]), positions_(1), block_(block_of(y.layout)) {
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

void ChannelCopy::copy_block(void const* const* sources, float* y, int64_t image, size_t index) const {
    int64_t filled = 0;
    for (auto const& run : runs_[index]) {
        auto* x = static_cast<float const*>(sources[run.source]) +
                  (image * source_blocks_[run.source] + run.from_block) * block_floats() + run.from_lane;
        filled += run.lanes;
        if (run.lanes == block_)
            std::memcpy(y, x, static_cast<size_t>(block_floats()) * sizeof(float));
        else
            kCopies[static_cast<size_t>(run.lanes - 1)](x, y + run.to_lane, positions_, block_);
    }
    for (int64_t i = 0; filled < block_ && i < positions_; ++i)
        std::fill(y + i * block_ + filled, y + (i + 1) * block_, 0.f);
}

void ChannelCopy::run(void const* const* sources, void* y, int64_t begin, int64_t end) const {
    auto blocks = std::ssize(runs_);
    for (auto i = begin; i < end; ++i)
        copy_block(sources, static_cast<float*>(y) + i * block_floats(), i / blocks, static_cast<size_t>(i % blocks));
}

}  // namespace refactor::kernel::movement
