#include "conv/direct_task.h"

namespace refactor::kernel {

namespace {

class DirectKernel final : public NamedKernel {
    ConvInfo info_;
    Isa isa_;
    bool planar_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    TileIsa const& tile() const { return isa_ == Isa::Avx512 ? tile_avx512() : tile_avx2(); }

public:
    DirectKernel(std::string id, ConvInfo info, Isa isa, bool planar, std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(std::move(id)),
          info_(std::move(info)),
          isa_(isa),
          planar_(planar),
          weights_(std::move(weights)) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = direct_geometry(info_, args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        return direct_time(*g, tile(), planar_, cost);
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = direct_geometry(info_, args);
        if (!g) return Err{g.error()};
        std::shared_ptr<mem_manager::Blob const> packed;
        if (weights_) {
            ChunkList list(tile().block, planar_, g->in_channels, g->out_channels, g->group, g->taps());
            list.tap_major = DirectTask::skips_taps(*g, planar_, tile().block);
            packed = args.packs.get(*weights_, list.format() + g->cropped(),
                                    static_cast<size_t>(list.floats) * sizeof(float), [&](void const* from, void* to) {
                                        for (auto const& chunk : list.chunks)
                                            DirectTask::pack(list, *g, static_cast<float const*>(from), chunk,
                                                             static_cast<float*>(to));
                                    });
        }
        return std::unique_ptr<runtime::Task>(
            std::make_unique<DirectTask>(*g, info_.epilogue, tile(), planar_, args.threads, std::move(packed)));
    }
};

KernelResult make(ConvInfo const& info, Request const& request, Isa isa, std::string id, bool planar) {
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    auto blocked = isa == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    if (auto reason = why_not_direct(info, request, blocked, planar); !reason.empty()) return Err{Rejection{reason}};
    return std::unique_ptr<Kernel>(
        std::make_unique<DirectKernel>(std::move(id), info, isa, planar, request.inputs[1].constant));
}

}  // namespace

Result<Geometry, Rejection> direct_geometry(ConvInfo const& info, BindArgs const& args) {
    auto g = conv_geometry(info.window, info.group, args);
    if (!g) return g;
    if (g->empty()) return Err{Rejection{"is for tensors with elements"}};
    g->merge_axes();
    for (int axis = 0; axis < 3; ++axis) g->crop(axis);
    for (int axis = 0; axis < 3; ++axis)
        if (g->pad[axis] < 0 || g->pad_end[axis] < 0) return Err{Rejection{"does not handle negative pads"}};
    return g;
}

std::string why_not_direct(ConvInfo const& info, Request const& request, Layout blocked, bool planar) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return reason;
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (x.dtype != DataType::F32) return "handles f32, got " + std::string(name_of(x.dtype));
    if (y.layout != blocked) return "expects Y in the blocked layout of its vectors";
    if (x.layout != (planar ? Layout::Plain : blocked))
        return planar ? "expects X in the Plain layout" : "expects X in the blocked layout of its vectors";
    // With more channels a blocked copy costs less than the broadcasts of single floats from many planes.
    if (planar && (x.dims[1] < 1 || x.dims[1] > 16 || info.group != 1))
        return "is for 1 to 16 input channels and one group, got " + std::to_string(x.dims[1]) + " and " +
               std::to_string(info.group);
    return {};
}

double direct_time(Geometry const& g, TileIsa const& tile, bool planar, CostModel const& cost) {
    // A block of outputs is computed whole, from all channels between the first and the last of its groups.
    auto blocks = (g.out_channels + tile.block - 1) / tile.block, unit = planar ? int64_t{1} : tile.block;
    auto depth = static_cast<double>((g.in_channels + unit - 1) / unit * unit);
    if (g.group > 1) {
        ChunkList list(tile.block, planar, g.in_channels, g.out_channels, g.group, 1);
        depth = static_cast<double>(list.floats) / static_cast<double>(blocks * tile.block);
    }
    auto outputs = static_cast<double>(g.batch * g.out_size() * blocks * tile.block);
    auto work = 2 * outputs * depth * static_cast<double>(g.taps()) / (0.85 * cost.flops * cost.threads);
    auto weights = 4 * depth * static_cast<double>(g.out_channels * g.taps());
    auto bytes = 4 * (outputs + static_cast<double>(g.batch * g.in_channels * g.in_size()));
    return std::max(work, weights / (cost.bandwidth(weights) * cost.threads)) +
           bytes / (cost.bandwidth(bytes) * 2 * cost.threads);
}

KernelResult conv_first_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, "conv:cpu:first_layer:f32:avx512", true);
}
KernelResult conv_first_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, "conv:cpu:first_layer:f32:avx2", true);
}
KernelResult conv_direct_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, "conv:cpu:direct:f32:avx512", false);
}
KernelResult conv_direct_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, "conv:cpu:direct:f32:avx2", false);
}

}  // namespace refactor::kernel
