#include "common/thread_pool.h"
#include "reorder/channels_last.h"
#include "reorder/reorder.h"
#include "reorder/transpose_blocks.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

class RoundingTask final : public runtime::Task {
    ChannelsLastSizes s_;  ///< elements
    bool to_blocked_;

public:
    RoundingTask(ChannelsLastSizes const& sizes, bool to_blocked) : s_(sizes), to_blocked_(to_blocked) {}
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const& isa = reorder_avx512bf16();
        auto step = channels_last_positions(s_.row * int64_t{sizeof(float)});
        auto parts = (s_.positions + step - 1) / step;
        auto* plain = static_cast<float*>(arguments[to_blocked_ ? 0 : 1]);
        auto* blocked = static_cast<uint16_t*>(arguments[to_blocked_ ? 1 : 0]);
        context.pool.parallel_for(s_.images * parts, [&](int64_t task, int) {
            auto image = task / parts, first = task % parts * step;
            for (int64_t b = 0; b < s_.blocks(); ++b)
                (to_blocked_ ? isa.last_to_blocked : isa.last_to_plain)(
                    {plain + (image * s_.positions + first) * s_.row + b * s_.block, s_.row,
                     blocked + ((image * s_.blocks() + b) * s_.positions + first) * s_.block,
                     std::min(s_.positions - first, step),
                     static_cast<int32_t>(std::min(s_.block, s_.row - b * s_.block))});
        });
    }
};

class RoundingKernel final : public NamedKernel {
    bool to_blocked_;

public:
    RoundingKernel(std::string id, bool to_blocked) : NamedKernel(std::move(id)), to_blocked_(to_blocked) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override { return channels_last_estimate(args); }
    TaskResult bind(BindArgs const& args) const override {
        auto sizes = channels_last_sizes(*args.inputs[0], *args.outputs[0], 1);
        if (!sizes) return Err{sizes.error()};
        return std::unique_ptr<runtime::Task>(std::make_unique<RoundingTask>(*sizes, to_blocked_));
    }
};

}  // namespace

KernelResult reorder_channels_last_bf16(ReorderInfo const& info, Request const& request) {
    if (!info.channels_last) return Err{Rejection{"is for channels at the end"}};
    if (auto reason = rounding_mismatch(request); !reason.empty()) return Err{Rejection{reason}};
    return std::unique_ptr<Kernel>(std::make_unique<RoundingKernel>("reorder:cpu:channels_last:bf16:avx512bf16",
                                                                    request.inputs[0].layout == Layout::Plain));
}

}  // namespace refactor::kernel
