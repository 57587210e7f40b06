#include "conv/conv_reordered.h"
#include "conv/cost.h"
#include "conv_transpose/conv_transpose.h"
#include "conv_transpose/phases_task.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

constexpr int64_t kMostPhases = 4096;

/// Bytes of a panel of weights in parts, of which L2 holds two beside the input.
constexpr int64_t kMostPanelBytes = 256 << 10;

class PhasesKernel final : public NamedKernel {
    ConvTransposeInfo info_;
    Isa isa_;
    TileIsa const& tile_;
    RoundedTensors rounded_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = conv_transpose_geometry(info_.window, info_.group, args);
        if (!g) return g;
        if (g->empty()) return Err{Rejection{"is for tensors with elements"}};
        if (tile_.parts > 1)
            if (auto why = why_not_in_parts(*g); !why.empty()) return Err{Rejection{why}};
        return g;
    }
    std::string why_not_in_parts(Geometry const& g) const {
        auto blocks = (g.in_channels + tile_.block - 1) / tile_.block, steps = (blocks + 1) / 2;
        for (int a = 0; a < 3; ++a) {
            size_t most = 0;
            for (int64_t r = 0; r < g.stride[a]; ++r) {
                auto taps = AxisPhase(g, a, r).taps.size();
                if (taps == 0) return "needs taps for all outputs";
                most = std::max(most, taps);
            }
            steps *= static_cast<int64_t>(most);
        }
        auto bytes = steps * PanelsInParts::kStepBytes;
        if (bytes <= kMostPanelBytes) return {};
        return "handles phases of up to " + std::to_string(kMostPanelBytes) + " bytes of weights in parts, got " +
               std::to_string(bytes);
    }
    /// ns that tiles wait for parts of X and of the weights.
    static double making_parts(Geometry const& g) {
        constexpr double kOfFloat = 0.25;
        return kOfFloat *
               static_cast<double>(g.batch * g.in_channels * g.in_size() + g.in_channels * g.out_channels * g.taps());
    }

public:
    PhasesKernel(std::string id, ConvTransposeInfo info, Isa isa, TileIsa const& tile, RoundedTensors rounded,
                 std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(std::move(id)),
          info_(std::move(info)),
          isa_(isa),
          tile_(tile),
          rounded_(rounded),
          weights_(std::move(weights)) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        auto round = [&](int64_t a) { return static_cast<double>((a + tile_.block - 1) / tile_.block * tile_.block); };
        auto flops = cost.multiply_adds(tile_);
        auto lanes = g->over_lanes(tile_.channels).in_channels;
        auto taps = static_cast<double>(g->batch * g->in_size() * g->taps());
        auto bytes = (rounded_.x ? 2. : 4.) * static_cast<double>(args.inputs[0]->stored_count()) +
                     (rounded_.y ? 4. : 8.) * static_cast<double>(args.outputs[0]->stored_count());
        auto work = 2 * taps * round(lanes / g->group) * round(g->out_channels) / (0.8 * flops);
        if (tile_.parts > 1) work += making_parts(*g);
        return (work + bytes / cost.bandwidth(bytes)) / cost.threads;
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto lanes = g->over_lanes(tile_.channels);
        PhasePlan plan(lanes, tile_);
        std::shared_ptr<mem_manager::Blob const> packed;
        if (weights_) {
            // Pads move a phase's outputs but not its taps, so they are no part of the format.
            auto format = lanes_format(tile_) + (tile_.whole_units ? "phases_whole:" : "phases:") +
                          std::to_string(tile_.block) + ":g" + std::to_string(g->group) + ":s" + dims_text(g->stride) +
                          ":d" + dims_text(g->dilation);
            packed = args.packs.get(
                *weights_, format, static_cast<size_t>(plan.floats) * sizeof(float), [&](void const* from, void* to) {
                    LaneWeights weights(tile_, static_cast<float const*>(from), g->group, g->in_channels / g->group,
                                        g->out_channels / g->group * g->taps());
                    plan.pack(lanes, weights.data(), static_cast<float*>(to));
                });
        }
        return std::unique_ptr<runtime::Task>(std::make_unique<PhasesTask>(
            *g, info_.epilogue, tile_, rounded_, args.threads, std::move(packed), std::move(plan)));
    }
};

KernelResult make(ConvTransposeInfo const& info, Request const& request, Isa isa, TileIsa const& tile, std::string id) {
    if (auto reason = rounded_conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    auto blocked = isa >= Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    auto const rounded = rounded_tensors(tile, request);
    if ((x.layout != blocked && !rounded.x) || (y.layout != blocked && !rounded.y))
        return Err{Rejection{"expects X and Y in the blocked layout of its vectors"}};
    if (element_count(info.window.strides) > kMostPhases)
        return Err{Rejection{"handles up to " + std::to_string(kMostPhases) + " phases, got strides " +
                             dims_text(info.window.strides)}};
    if (rounded.y && info.group > 1) return Err{Rejection{"makes blocks of 32 channels of one group"}};
    return std::unique_ptr<Kernel>(
        std::make_unique<PhasesKernel>(std::move(id), info, isa, tile, rounded, request.inputs[1].constant));
}

std::vector<std::unique_ptr<Kernel>> blocked_kernels(void const* info, Request const& request) {
    Candidates found;
    auto const& transpose = *static_cast<ConvTransposeInfo const*>(info);
    found.add("conv_transpose:cpu:phases:avx512", conv_transpose_phases_avx512(transpose, request));
    found.add("conv_transpose:cpu:phases:avx2", conv_transpose_phases_avx2(transpose, request));
    return std::move(found.kernels);
}

}  // namespace

KernelResult conv_transpose_phases_avx512(ConvTransposeInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, tile_avx512(), "conv_transpose:cpu:phases:f32:avx512");
}
KernelResult conv_transpose_phases_rounded(ConvTransposeInfo const& info, Request const& request) {
    if (auto reason = why_not_rounded(info.may_round, info.group, request); !reason.empty())
        return Err{Rejection{reason}};
    return make(info, request, Isa::Avx512Bf16, tile_avx512bf16(), "conv_transpose:cpu:phases:bf16:avx512bf16");
}
KernelResult conv_transpose_phases_tiles(ConvTransposeInfo const& info, Request const& request) {
    if (auto reason = why_not_rounded(info.may_round, info.group, request); !reason.empty())
        return Err{Rejection{reason}};
    if (info.group > 1) return Err{Rejection{"is for one group"}};
    return make(info, request, Isa::Avx512Amx, tile_avx512amx(), "conv_transpose:cpu:phases:bf16:avx512amx");
}
KernelResult make_split_phases(ConvTransposeInfo const& info, Request const& request, Isa isa, TileIsa const& tile,
                               std::string id) {
    if (request.precision == Precision::Exact) return Err{Rejection{"exact precision allows no sums of parts of bf16"}};
    if (info.group > 1) return Err{Rejection{"is for one group"}};
    return make(info, request, isa, tile, std::move(id));
}
KernelResult conv_transpose_phases_split(ConvTransposeInfo const& info, Request const& request) {
    return make_split_phases(info, request, Isa::Avx512Amx, tile_split_avx512amx(),
                             "conv_transpose:cpu:phases:f32:avx512amx");
}
KernelResult conv_transpose_phases_avx2(ConvTransposeInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, tile_avx2(), "conv_transpose:cpu:phases:f32:avx2");
}
KernelResult conv_transpose_reordered_avx512(ConvTransposeInfo const& info, Request const& request) {
    return reordered("conv_transpose:cpu:reordered:f32:avx512", info.epilogue, request, Isa::Avx512, blocked_kernels,
                     &info);
}
KernelResult conv_transpose_reordered_avx2(ConvTransposeInfo const& info, Request const& request) {
    return reordered("conv_transpose:cpu:reordered:f32:avx2", info.epilogue, request, Isa::Avx2, blocked_kernels,
                     &info);
}

}  // namespace refactor::kernel
