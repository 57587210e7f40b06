#include "conv/direct.h"

#include "conv/cost.h"
#include "conv/direct_task.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

using Form = DirectForm;

class DirectKernel final : public NamedKernel {
    ConvInfo info_;
    Form form_;
    RoundedTensors rounded_;
    TileIsa const& tile_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = merged_conv_geometry(info_, args);
        if (!g) return g;
        for (int axis = 0; axis < 3; ++axis) g->crop(axis);
        for (int axis = 0; axis < 3; ++axis)
            if (g->pad[axis] < 0 || g->pad_end[axis] < 0) return Err{Rejection{"does not handle negative pads"}};
        auto lanes = g->over_lanes(tile_.channels);
        auto depth = lanes.in_channels / g->group, outputs = g->out_channels / g->group;
        if (tile_.parts > 1 && g->group > 1 && (depth % (2 * tile_.block) || outputs % tile_.block))
            return Err{Rejection{"is for groups of whole tiles"}};
        return g;
    }
    std::shared_ptr<mem_manager::Blob const> pack(Geometry const& g, PackCache& packs) const {
        auto lanes = g.over_lanes(tile_.channels);
        ChunkList list(tile_.block, form_.planar, lanes.in_channels, g.out_channels, g.group, g.taps(),
                       tile_.whole_units);
        list.tap_major = DirectTask::skipped_taps(lanes, form_.planar, tile_, rounded_).any();
        auto fill = [&](void const* from, void* to) {
            LaneWeights weights(tile_, static_cast<float const*>(from), g.out_channels, g.in_channels / g.group,
                                g.all_taps[0] * g.all_taps[1] * g.all_taps[2]);
            for (auto const& chunk : list.chunks)
                DirectTask::pack(list, lanes, weights.data(), chunk, static_cast<float*>(to));
        };
        return packs.get(*weights_, lanes_format(tile_) + list.format() + g.cropped(),
                         static_cast<size_t>(list.floats) * sizeof(float), fill);
    }

    template <class T>
    static T rounded(T a, int64_t unit) {
        return static_cast<T>((static_cast<int64_t>(a) + unit - 1) / unit * unit);
    }
    /// ns that tiles wait for parts of X, and of so many weights for each band: two vectors take 18 cycles.
    static double making_parts(Geometry const& g, double weights, int threads) {
        constexpr double kOfFloat = 0.25, kBand = 512;
        auto per_thread = static_cast<double>(g.batch * g.out_size()) / threads;
        auto read = static_cast<double>(g.batch * g.in_channels * std::min(g.in_size(), g.out_size() * g.taps()));
        return kOfFloat * (read / threads + weights * std::max(1., per_thread / kBand));
    }

public:
    DirectKernel(Form const& form, ConvInfo info, RoundedTensors rounded,
                 std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(form.id),
          info_(std::move(info)),
          form_(form),
          rounded_(rounded),
          tile_(form.tile()),
          weights_(std::move(weights)) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(form_.isa, args.threads);
        auto flops = cost.multiply_adds(tile_);
        auto lanes = g->over_lanes(tile_.channels).in_channels;
        // A block of outputs is computed whole, from all channels between the first and the last of its groups.
        auto blocks = (g->out_channels + tile_.block - 1) / tile_.block;
        // Of pairs, 16 channels fill half a block, and the other half is not multiplied.
        auto unit = form_.planar || (tile_.channels > 1 && !tile_.whole_units) ? int64_t{1} : tile_.block;
        auto depth = static_cast<double>((lanes + unit - 1) / unit * unit);
        if (g->group > 1) {
            ChunkList list(tile_.block, form_.planar, lanes, g->out_channels, g->group, 1, tile_.whole_units);
            depth = static_cast<double>(list.floats) / static_cast<double>(blocks * tile_.block);
            // Blocks that are computed one by one, not two together.
            if (list.parts_of_blocks()) flops /= tile_.block == 16 ? 1.2 : 1.08;
        }
        auto positions = g->batch * g->out_size();
        if (tile_.parts > 1)
            depth = rounded(depth, 2 * tile_.block), positions = rounded(positions, cost.threads * tile_.columns);
        auto outputs = static_cast<double>(positions * blocks * tile_.block);
        auto share =
            g->group == 1 && tile_.channels == 1 ? CostModel::share_of_blocks(tile_.block, g->out_channels) : 1;
        auto inputs = static_cast<double>(g->batch * g->in_channels * g->in_size());
        share *= DirectTask::skipped_taps(g->over_lanes(tile_.channels), form_.planar, tile_, rounded_).share;
        auto work = 2 * outputs * share * depth * static_cast<double>(g->taps()) / (0.85 * flops * cost.threads);
        if (tile_.parts > 1)
            work += making_parts(*g, depth * static_cast<double>(g->taps() * blocks * tile_.block), cost.threads);
        auto weights = 4 * depth * static_cast<double>(g->out_channels * g->taps());
        bool copied = (tile_.channels > 1 && !rounded_.x) || tile_.parts > 1;  // and read once more
        auto bytes = (rounded_.y ? 2 : 4) * outputs + (rounded_.x ? 2 : 4) * inputs * (copied ? 2 : 1);
        return std::max(work, weights / (cost.bandwidth(weights) * cost.threads)) +
               bytes / (cost.bandwidth(bytes) * 2 * cost.threads);
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        return std::unique_ptr<runtime::Task>(std::make_unique<DirectTask>(*g, info_.epilogue, tile_, form_.planar,
                                                                           rounded_, args.threads,
                                                                           weights_ ? pack(*g, args.packs) : nullptr));
    }
};

/// Whether chunks of two blocks of outputs are blocks of 32 channels.
bool has_chunks_in_blocks(int64_t group, TileIsa const& tile, Operand const& w) {
    if (group == 1) return true;
    ChunkList list(tile.block, false, group * ((w.dims[1] + 1) / 2), w.dims[0], group, 1, tile.whole_units);
    return std::all_of(list.chunks.begin(), list.chunks.end(),
                       [](Chunk const& chunk) { return chunk.blocks == 1 || chunk.first % 2 == 0; });
}

KernelResult make(ConvInfo const& info, Request const& request, Form const& form) {
    if (auto reason = rounded_conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
    if (request.isa < form.isa) return Err{Rejection{"needs " + std::string(name_of(form.isa))}};
    auto const rounded = rounded_tensors(form.tile(), request);
    if (y.layout != form.blocked() && !rounded.y)
        return Err{Rejection{"expects Y in the blocked layout of its vectors"}};
    if (x.layout != (form.planar ? Layout::Plain : form.blocked()) && (form.planar || !rounded.x))
        return Err{Rejection{form.planar ? "expects X in the Plain layout"
                                         : "expects X in the blocked layout of its vectors"}};
    if (rounded.y && !has_chunks_in_blocks(info.group, form.tile(), w))
        return Err{Rejection{"makes blocks of 32 channels of groups of such blocks, or of no whole blocks of 16, got " +
                             std::to_string(w.dims[1]) + " in and " + std::to_string(w.dims[0] / info.group) + " out"}};
    // With more channels a blocked copy costs less than the broadcasts of single floats from many planes.
    if (form.planar && (x.dims[1] < 1 || x.dims[1] > 16 || info.group != 1))
        return Err{Rejection{"is for 1 to 16 input channels and one group, got " + std::to_string(x.dims[1]) + " and " +
                             std::to_string(info.group)}};
    return std::unique_ptr<Kernel>(std::make_unique<DirectKernel>(form, info, rounded, w.constant));
}

}  // namespace

KernelResult make_rounded_direct(ConvInfo const& info, Request const& request, DirectForm const& form) {
    if (auto reason = why_not_rounded(info.may_round, info.group, request); !reason.empty())
        return Err{Rejection{reason}};
    return make(info, request, form);
}

KernelResult make_split_direct(ConvInfo const& info, Request const& request, DirectForm const& form) {
    if (request.precision == Precision::Exact) return Err{Rejection{"exact precision allows no sums of parts of bf16"}};
    return make(info, request, form);
}

std::string why_not_rounded(bool may_round, int64_t group, Request const& request) {
    if (!may_round) return "operands may not be rounded to bf16";
    if (!request.inputs[1].constant) return "needs constant weights";
    auto channels = request.inputs[0].dims.size() > 1 ? request.inputs[0].dims[1] : 0;
    if (group > 1 && channels % (2 * group))
        return "is for one group, or an even number of channels in each, got " + std::to_string(channels) + " in " +
               std::to_string(group);
    return {};
}

KernelResult conv_first_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, {"conv:cpu:first_layer:f32:avx512", Isa::Avx512, tile_avx512, true});
}
KernelResult conv_first_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, {"conv:cpu:first_layer:f32:avx2", Isa::Avx2, tile_avx2, true});
}
KernelResult conv_first_rounded(ConvInfo const& info, Request const& request) {
    return make_rounded_direct(info, request,
                               {"conv:cpu:first_layer:bf16:avx512bf16", Isa::Avx512Bf16, tile_avx512bf16, true});
}
KernelResult conv_direct_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, {"conv:cpu:direct:f32:avx512", Isa::Avx512, tile_avx512, false});
}
KernelResult conv_direct_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, {"conv:cpu:direct:f32:avx2", Isa::Avx2, tile_avx2, false});
}
KernelResult conv_direct_rounded(ConvInfo const& info, Request const& request) {
    return make_rounded_direct(info, request,
                               {"conv:cpu:direct:bf16:avx512bf16", Isa::Avx512Bf16, tile_avx512bf16, false});
}
KernelResult conv_direct_tiles(ConvInfo const& info, Request const& request) {
    return make_rounded_direct(info, request,
                               {"conv:cpu:direct:bf16:avx512amx", Isa::Avx512Amx, tile_avx512amx, false});
}
KernelResult conv_direct_split(ConvInfo const& info, Request const& request) {
    return make_split_direct(info, request,
                             {"conv:cpu:direct:f32:avx512amx", Isa::Avx512Amx, tile_split_avx512amx, false});
}

}  // namespace refactor::kernel
