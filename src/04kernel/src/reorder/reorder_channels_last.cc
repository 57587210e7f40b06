#include "common/thread_pool.h"
#include "conv/cost.h"
#include "conv/geometry.h"
#include "reorder/channels_last.h"
#include "reorder/reorder.h"

#include <algorithm>
#include <cstring>

namespace refactor::kernel {

namespace {

using Sizes = ChannelsLastSizes;

/// Calls `copy(plain, blocked, bytes)` for the runs of positions [first, last) of one image; blocks that are not full
/// come with fewer bytes. Block after block, so that what is contiguous in blocks is touched in order.
template <class Copy>
void each_run(Sizes const& s, int64_t image, int64_t first, int64_t last, Copy&& copy) {
    for (int64_t b = 0; b < s.blocks(); ++b) {
        auto plain = (image * s.positions + first) * s.row + b * s.block;
        auto blocked = ((image * s.blocks() + b) * s.positions + first) * s.block;
        auto bytes = std::min(s.block, s.row - b * s.block);
        for (auto p = first; p < last; ++p, plain += s.row, blocked += s.block) copy(plain, blocked, bytes);
    }
}

template <bool to_blocked>
void copy_positions(Sizes const& s, std::byte const* x, std::byte* y, int64_t image, int64_t first, int64_t last) {
    auto copy = [&](auto size) {
        each_run(s, image, first, last, [&](int64_t plain, int64_t blocked, int64_t bytes) {
            auto* to = y + (to_blocked ? blocked : plain);
            auto const* from = x + (to_blocked ? plain : blocked);
            constexpr auto kBlock = decltype(size)::value;
            if (kBlock != 0 && bytes == kBlock) {
                std::memcpy(to, from, kBlock);
                return;
            }
            std::memcpy(to, from, static_cast<size_t>(bytes));
            if (to_blocked) std::memset(to + bytes, 0, static_cast<size_t>(s.block - bytes));
        });
    };
    switch (s.block) {
        case 32:
            return copy(std::integral_constant<size_t, 32>{});
        case 64:
            return copy(std::integral_constant<size_t, 64>{});
        default:
            return copy(std::integral_constant<size_t, 0>{});
    }
}

class ChannelsLastTask final : public runtime::Task {
    Sizes s_;
    bool to_blocked_;

public:
    ChannelsLastTask(Sizes const& sizes, bool to_blocked) : s_(sizes), to_blocked_(to_blocked) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto step = channels_last_positions(s_.row);
        auto parts = (s_.positions + step - 1) / step;
        auto const* x = static_cast<std::byte const*>(arguments[0]);
        auto* y = static_cast<std::byte*>(arguments[1]);
        context.pool.parallel_for(s_.images * parts, [&](int64_t task, int) {
            auto first = task % parts * step, last = std::min(s_.positions, first + step);
            (to_blocked_ ? copy_positions<true> : copy_positions<false>)(s_, x, y, task / parts, first, last);
        });
    }
};

class ChannelsLastKernel final : public NamedKernel {
    bool to_blocked_;

public:
    ChannelsLastKernel(std::string id, bool to_blocked) : NamedKernel(std::move(id)), to_blocked_(to_blocked) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override { return channels_last_estimate(args); }
    TaskResult bind(BindArgs const& args) const override {
        auto sizes = channels_last_sizes(*args.inputs[0], *args.outputs[0], bits_of(args.inputs[0]->dtype) / 8);
        if (!sizes) return Err{sizes.error()};
        return std::unique_ptr<runtime::Task>(std::make_unique<ChannelsLastTask>(*sizes, to_blocked_));
    }
};

}  // namespace

Result<ChannelsLastSizes, Rejection> channels_last_sizes(TensorDesc const& x, TensorDesc const& y, int64_t unit) {
    auto const &plain = x.layout == Layout::Plain ? x : y, &blocked = x.layout == Layout::Plain ? y : x;
    bool fits = plain.dims.size() > 1 && blocked.dims.size() > 1 && plain.dims[0] == blocked.dims[0] &&
                plain.dims.back() == blocked.dims[1] && plain.count() == blocked.count();
    if (!fits)
        return Err{Rejection{"channels at the end of " + dims_text(plain.dims) + " and in " + dims_text(blocked.dims)}};
    auto row = plain.dims.back(), each = plain.dims[0] * row;
    return Sizes{plain.dims[0], each == 0 ? 0 : plain.count() / each, row * unit, block_of(blocked.layout) * unit};
}

int64_t channels_last_positions(int64_t row_bytes) {
    constexpr int64_t kBytes = 64 << 10, kLeast = 8;
    return std::max(kLeast, kBytes / std::max<int64_t>(1, row_bytes));
}

double channels_last_estimate(BindArgs const& args) {
    auto bytes_of = [](TensorDesc const& desc) {
        return static_cast<double>(bits_of(desc.dtype)) / 8 * static_cast<double>(desc.stored_count());
    };
    auto bytes = bytes_of(*args.inputs[0]) + bytes_of(*args.outputs[0]);
    CostModel cost(Isa::Avx2, args.threads);
    return bytes / (cost.bandwidth(bytes) * cost.threads);
}

KernelResult reorder_channels_last(ReorderInfo const& info, Request const& request) {
    if (!info.channels_last) return Err{Rejection{"is for channels at the end"}};
    if (auto reason = reorder_mismatch({}, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if ((x.layout == Layout::Plain) == (y.layout == Layout::Plain))
        return Err{Rejection{"is for Plain and blocks of channels"}};
    if (bits_of(x.dtype) < 8) return Err{Rejection{"handles whole bytes, got " + std::string(name_of(x.dtype))}};
    auto id = "reorder:cpu:channels_last:" + std::string(name_of(x.dtype));
    return std::unique_ptr<Kernel>(std::make_unique<ChannelsLastKernel>(std::move(id), x.layout == Layout::Plain));
}

}  // namespace refactor::kernel
