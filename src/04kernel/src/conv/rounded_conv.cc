#include "conv/direct_task.h"

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

/// Of few channels in the Plain layout, or of blocks.
class RoundedKernel final : public NamedKernel {
    ConvInfo info_;
    bool planar_;
    std::shared_ptr<Blob const> weights_;

    static TileIsa const& tile() { return tile_avx512bf16(); }
    /// W [M, channels of a group, taps] as [M, pairs of them, taps].
    static std::vector<float> round_weights(Geometry const& g, float const* w) {
        auto channels = g.in_channels / g.group, pairs = (channels + 1) / 2;
        auto taps = g.all_taps[0] * g.all_taps[1] * g.all_taps[2];
        std::vector<float> rounded(static_cast<size_t>(g.out_channels * pairs * taps));
        auto* to = rounded.data();
        for (int64_t m = 0; m < g.out_channels; ++m)
            for (int64_t c = 0; c < channels; c += 2, to += taps) {
                auto const* even = w + (m * channels + c) * taps;
                round_side_by_side_avx512bf16(even, c + 1 < channels ? even + taps : nullptr, to, taps);
            }
        return rounded;
    }

public:
    RoundedKernel(std::string id, ConvInfo info, bool planar, std::shared_ptr<Blob const> weights)
        : NamedKernel(std::move(id)), info_(std::move(info)), planar_(planar), weights_(std::move(weights)) {}

    /// As that of the direct kernel of f32, of half as many channels, behind rounding X.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = direct_geometry(info_, args);
        if (!g) return Err{g.error()};
        CostModel cost(Isa::Avx512, args.threads);
        auto bytes = 4 * static_cast<double>(g->batch * g->in_channels * g->in_size());
        return direct_time(DirectTask::over_lanes(*g, tile()), tile(), planar_, cost) +
               bytes / (cost.bandwidth(bytes) * cost.threads);
    }
    TaskResult bind(BindArgs const& args) const override {
        auto g = direct_geometry(info_, args);
        if (!g) return Err{g.error()};
        auto pairs = DirectTask::over_lanes(*g, tile());
        ChunkList list(tile().block, planar_, pairs.in_channels, pairs.out_channels, pairs.group, pairs.taps());
        list.tap_major = DirectTask::skips_taps(pairs, planar_, tile().block);
        auto pack = [&](void const* from, void* to) {
            auto rounded = round_weights(*g, static_cast<float const*>(from));
            for (auto const& chunk : list.chunks)
                DirectTask::pack(list, pairs, rounded.data(), chunk, static_cast<float*>(to));
        };
        auto packed = args.packs.get(*weights_, "pairs:" + list.format() + g->cropped(),
                                     static_cast<size_t>(list.floats) * sizeof(float), pack);
        return std::unique_ptr<runtime::Task>(
            std::make_unique<DirectTask>(*g, info_.epilogue, tile(), planar_, args.threads, std::move(packed)));
    }
};

KernelResult make(ConvInfo const& info, Request const& request, std::string id, bool planar) {
    if (!info.may_round) return Err{Rejection{"operands may not be rounded to bf16"}};
    if (request.isa < Isa::Avx512Bf16) return Err{Rejection{"needs " + std::string(name_of(Isa::Avx512Bf16))}};
    if (auto reason = why_not_direct(info, request, Layout::Blocked16, planar); !reason.empty())
        return Err{Rejection{reason}};
    auto const& w = request.inputs[1];
    if (info.group > 1 && w.dims[1] % 2)
        return Err{
            Rejection{"is for one group, or an even number of channels in each, got " + std::to_string(w.dims[1])}};
    if (!w.constant) return Err{Rejection{"needs constant weights"}};
    return std::unique_ptr<Kernel>(std::make_unique<RoundedKernel>(std::move(id), info, planar, w.constant));
}

}  // namespace

KernelResult conv_rounded(ConvInfo const& info, Request const& request) {
    return make(info, request, "conv:cpu:rounded:bf16:avx512bf16", false);
}
KernelResult conv_first_rounded(ConvInfo const& info, Request const& request) {
    return make(info, request, "conv:cpu:first_layer:bf16:avx512bf16", true);
}

}  // namespace refactor::kernel
