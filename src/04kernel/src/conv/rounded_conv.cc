#include "common/thread_pool.h"
#include "conv/cost.h"
#include "conv/direct_task.h"
#include "conv/rounded_tile.h"

#include <algorithm>

namespace refactor::kernel {
namespace {

using mem_manager::Blob;

/// Blocks of X that are rounded to blocks of pairs first, of which a direct convolution makes Y.
class RoundedTask final : public runtime::Task {
    /// Positions that are worth a part of their own.
    static constexpr int64_t kPart = 1 << 10;

    RoundedTileIsa const& isa_;
    DirectTask direct_;
    size_t arguments_, pairs_bytes_;
    int64_t images_, blocks_, positions_;
    double operations_;

    int64_t units() const { return (blocks_ + 1) / 2; }

public:
    /// `g`: of the convolution in f32; `pairs`: of that over pairs.
    RoundedTask(RoundedTileIsa const& isa, Geometry const& g, Geometry const& pairs, Epilogue const& epilogue,
                std::shared_ptr<Blob const> packed, int threads)
        : isa_(isa),
          direct_(pairs, epilogue, isa.tile, false, threads, std::move(packed)),
          arguments_(size_t{3} + epilogue.bias + epilogue.residual),
          images_(g.batch),
          blocks_((g.in_channels + isa.tile.block - 1) / isa.tile.block),
          positions_(g.in_size()),
          operations_(2. * static_cast<double>(g.batch * g.out_channels * g.out_size() * g.taps()) *
                      static_cast<double>(g.in_channels / g.group)) {
        pairs_bytes_ = static_cast<size_t>(images_ * units() * positions_ * isa.tile.block) * sizeof(float);
    }
    void run(void* const* arguments, runtime::RunContext const& context) const override {
        auto const* x = static_cast<float const*>(arguments[0]);
        auto* pairs = reinterpret_cast<float*>(context.workspace);
        auto const block = int64_t{isa_.tile.block};
        auto parts = (positions_ + kPart - 1) / kPart;
        context.pool.parallel_for(images_ * units() * parts, [&](int64_t task, int) {
            auto first = task % parts * kPart, unit = task / parts, image = unit / units(), low = unit % units() * 2;
            auto const* from = x + ((image * blocks_ + low) * positions_ + first) * block;
            isa_.round_blocks(from, low + 1 < blocks_ ? from + positions_ * block : nullptr,
                              pairs + (unit * positions_ + first) * block, std::min(kPart, positions_ - first));
        });
        void* replaced[5];
        std::copy_n(arguments, arguments_, replaced);
        replaced[0] = pairs;
        auto rest = context;
        rest.workspace += pairs_bytes_;
        direct_.run(replaced, rest);
    }
    size_t workspace_bytes() const override { return pairs_bytes_ + direct_.workspace_bytes(); }
    uint64_t unread_inputs() const override { return direct_.unread_inputs(); }
    double operations() const override { return operations_; }
};

class RoundedKernel final : public NamedKernel {
    RoundedTileIsa const& isa_;
    ConvInfo info_;
    std::shared_ptr<Blob const> weights_;

    static Geometry pairs_of(Geometry g) {
        g.in_channels = g.group == 1 ? (g.in_channels + 1) / 2 : g.in_channels / 2;
        return g;
    }
    /// W [M, channels of a group, taps] as [M, pairs of them, taps].
    std::vector<float> round_weights(Geometry const& g, float const* w) const {
        auto channels = g.in_channels / g.group, pairs = (channels + 1) / 2;
        auto taps = g.all_taps[0] * g.all_taps[1] * g.all_taps[2];
        std::vector<float> rounded(static_cast<size_t>(g.out_channels * pairs * taps));
        auto* to = rounded.data();
        for (int64_t m = 0; m < g.out_channels; ++m)
            for (int64_t c = 0; c < channels; c += 2, to += taps) {
                auto const* even = w + (m * channels + c) * taps;
                isa_.round_rows(even, c + 1 < channels ? even + taps : nullptr, to, taps);
            }
        return rounded;
    }

public:
    RoundedKernel(RoundedTileIsa const& isa, ConvInfo info, std::shared_ptr<Blob const> weights)
        : NamedKernel("conv:cpu:rounded:bf16:avx512bf16"),
          isa_(isa),
          info_(std::move(info)),
          weights_(std::move(weights)) {}

    /// As that of the direct kernel of f32, of half as many channels, behind reading X once more.
    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = direct_geometry(info_, args);
        if (!g) return Err{g.error()};
        CostModel cost(Isa::Avx512, args.threads);
        auto bytes = 4 * static_cast<double>(g->batch * g->in_channels * g->in_size());
        return direct_time(pairs_of(*g), isa_.tile, false, cost, cost.flops) +
               bytes / (cost.bandwidth(bytes) * cost.threads);
    }
    TaskResult bind(BindArgs const& args) const override {
        auto g = direct_geometry(info_, args);
        if (!g) return Err{g.error()};
        auto pairs = pairs_of(*g);
        ChunkList list(isa_.tile.block, false, pairs.in_channels, pairs.out_channels, pairs.group, pairs.taps());
        list.tap_major = DirectTask::skips_taps(pairs, false, isa_.tile.block);
        auto packed =
            args.packs.get(*weights_, "pairs:" + list.format() + g->cropped(),
                           static_cast<size_t>(list.floats) * sizeof(float), [&](void const* from, void* to) {
                               auto rounded = round_weights(*g, static_cast<float const*>(from));
                               for (auto const& chunk : list.chunks)
                                   DirectTask::pack(list, pairs, rounded.data(), chunk, static_cast<float*>(to));
                           });
        return std::unique_ptr<runtime::Task>(
            std::make_unique<RoundedTask>(isa_, *g, pairs, info_.epilogue, std::move(packed), args.threads));
    }
};

}  // namespace

KernelResult conv_rounded(ConvInfo const& info, Request const& request) {
    if (!info.may_round) return Err{Rejection{"operands may not be rounded to bf16"}};
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
    if (request.isa < Isa::Avx512Bf16) return Err{Rejection{"needs " + std::string(name_of(Isa::Avx512Bf16))}};
    if (x.dtype != DataType::F32) return Err{Rejection{"handles f32, got " + std::string(name_of(x.dtype))}};
    if (x.layout != Layout::Blocked16 || y.layout != Layout::Blocked16)
        return Err{Rejection{"expects X and Y in blocks of 16"}};
    if (info.group > 1 && w.dims[1] % 2)
        return Err{
            Rejection{"is for one group, or an even number of channels in each, got " + std::to_string(w.dims[1])}};
    if (!w.constant) return Err{Rejection{"needs constant weights"}};
    return std::unique_ptr<Kernel>(std::make_unique<RoundedKernel>(rounded_tile_avx512bf16(), info, w.constant));
}

}  // namespace refactor::kernel
