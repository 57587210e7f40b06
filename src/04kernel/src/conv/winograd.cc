#include "conv/winograd.h"

#include "conv/cost.h"
#include "conv/winograd_task.h"

namespace refactor::kernel {

namespace {

/// [product] of the layout of `list`.
void pack(ChunkList const& list, float const* w, float* packed) {
    float u[kWinogradProducts];
    int64_t const block = list.block;
    for (auto const& chunk : list.chunks)
        for (int64_t c = 0; c < list.in_channels; ++c)
            for (int64_t lane = 0; lane < chunk.blocks * block; ++lane) {
                auto m = chunk.first * block + lane;
                auto* to = packed + chunk.weights + c * chunk.blocks * block + lane;
                bool inside = m < list.out_channels;
                if (inside) winograd_weights(w + (m * list.in_channels + c) * 9, u);
                for (int64_t p = 0; p < kWinogradProducts; ++p) to[p * list.floats] = inside ? u[p] : 0.f;
            }
}

class WinogradKernel final : public NamedKernel {
    ConvInfo info_;
    Isa isa_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    TileIsa const& tile() const { return isa_ == Isa::Avx512 ? tile_avx512() : tile_avx2(); }

    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = geometry_of(info_.window, std::span<int64_t const>(args.inputs[1]->dims).subspan(2), args);
        if (!g) return g;
        if (g->empty()) return Err{Rejection{"is for tensors with elements"}};
        if (g->pad[1] < 0 || g->pad[2] < 0) return Err{Rejection{"does not handle negative pads"}};
        return g;
    }

public:
    WinogradKernel(std::string id, ConvInfo info, Isa isa, std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(std::move(id)), info_(std::move(info)), isa_(isa), weights_(std::move(weights)) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        CostModel cost(isa_, args.threads);
        WinogradPlan plan(*g, args.threads);
        auto round = [&](int64_t a) {
            return static_cast<double>((a + tile().block - 1) / tile().block * tile().block);
        };
        auto tiles = static_cast<double>(plan.tiles), in = static_cast<double>(g->in_channels),
             out = round(g->out_channels);
        // Each block of tiles reads all transformed weights; few tiles a block leave few accumulators a weight.
        auto filled = std::min(1., static_cast<double>(plan.block_tiles) / 8);
        auto products = 2. * kWinogradProducts * tiles * in * out / (0.85 * filled * cost.flops);
        auto weights = 4. * kWinogradProducts * in * out;
        auto readers = plan.shared ? 1. : 1. * static_cast<double>(cost.threads);
        auto reading = weights * static_cast<double>(plan.blocks) / readers / cost.bandwidth(weights);
        // Bytes of inputs or outputs and of their transforms, all from L2 or L3.
        auto transforms = 4. * (kWinogradProducts + 16) * tiles * (round(g->in_channels) + out) / (0.5 * cost.l2);
        return std::max((products + transforms) / cost.threads, reading) +
               0.25 * std::min(products / cost.threads, reading);
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        ChunkList list(tile().block, false, g->in_channels, g->out_channels, 1, 1);
        auto bytes = static_cast<size_t>(kWinogradProducts * list.floats) * sizeof(float);
        auto packed = args.packs.get(
            *weights_, tile().block == 16 ? "winograd_f4:16" : "winograd_f4:8", bytes,
            [&](void* to) { pack(list, static_cast<float const*>(weights_->data()), static_cast<float*>(to)); });
        return std::unique_ptr<runtime::Task>(std::make_unique<WinogradTask>(
            *g, info_.epilogue, tile(), isa_ == Isa::Avx512 ? winograd_avx512() : winograd_avx2(), args.threads,
            std::move(packed)));
    }
};

bool all_one(Dims const& dims) {
    for (auto d : dims)
        if (d != 1) return false;
    return true;
}

KernelResult make(ConvInfo const& info, Request const& request, Isa isa, std::string id) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    if (x.dtype != DataType::F32) return Err{Rejection{"handles f32, got " + std::string(name_of(x.dtype))}};
    if (request.precision == Precision::Exact) return Err{Rejection{"has a larger error than exact precision allows"}};
    auto blocked = isa == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    if (x.layout != blocked || y.layout != blocked)
        return Err{Rejection{"expects X and Y in the blocked layout of its vectors"}};
    if (x.dims.size() != 4 || w.dims[2] != 3 || w.dims[3] != 3 || info.group != 1 || !all_one(info.window.strides) ||
        !all_one(info.window.dilations))
        return Err{Rejection{"is for 3 × 3 kernels with stride 1, dilation 1 and one group"}};
    if (!w.constant) return Err{Rejection{"needs constant weights"}};
    return std::unique_ptr<Kernel>(std::make_unique<WinogradKernel>(std::move(id), info, isa, w.constant));
}

}  // namespace

KernelResult conv_winograd_avx512(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx512, "conv:cpu:winograd_f4:f32:avx512");
}
KernelResult conv_winograd_avx2(ConvInfo const& info, Request const& request) {
    return make(info, request, Isa::Avx2, "conv:cpu:winograd_f4:f32:avx2");
}

}  // namespace refactor::kernel
