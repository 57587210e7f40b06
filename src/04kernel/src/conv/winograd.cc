#include "conv/winograd.h"

#include "conv/cost.h"
#include "conv/winograd_task.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

/// Filters that are transformed together: a block of output channels of either instruction set.
constexpr int64_t kMostLanes = 16;
using Lanes = double[kMostLanes];

/// One dimension of the filter transform G·g for all lanes: out[i] = Σ G[i][k] g[k] with the G of `winograd_weights`,
/// common terms shared.
void transform(Lanes const& g0, Lanes const& g1, Lanes const& g2, Lanes (&out)[6]) {
    for (int64_t l = 0; l < kMostLanes; ++l) {
        auto a = (g0[l] + g2[l]) / 6, b = g1[l] / 6;
        auto c = g0[l] / 24 + g2[l] / 6, d = g1[l] / 12;
        out[0][l] = g0[l] / 4, out[5][l] = g2[l];
        out[1][l] = -a - b, out[2][l] = b - a;
        out[3][l] = c + d, out[4][l] = c - d;
    }
}

/// Transforms the filters of one input channel and `lanes` output channels, `stride` floats apart, and stores product p
/// at to + p * floats.
void pack_lanes(float const* w, int64_t stride, int64_t present, int64_t lanes, float* to, int64_t floats) {
    Lanes g[9] = {}, columns[3][6], u[6];
    for (int64_t l = 0; l < present; ++l)
        for (int64_t k = 0; k < 9; ++k) g[k][l] = static_cast<double>(w[l * stride + k]);
    for (int64_t j = 0; j < 3; ++j) transform(g[j], g[3 + j], g[6 + j], columns[j]);
    for (int64_t i = 0; i < 6; ++i) {
        transform(columns[0][i], columns[1][i], columns[2][i], u);
        for (int64_t j = 0; j < 6; ++j)
            for (int64_t l = 0; l < lanes; ++l) to[(i * 6 + j) * floats + l] = static_cast<float>(u[j][l]);
    }
}

/// [product] of the layout of `list`.
void pack(ChunkList const& list, Geometry const& g, float const* w, float* packed) {
    auto stride = g.in_channels * g.all_taps[0] * 9, plane_channels = list.in_channels / g.kernel[0];
    for (auto const& chunk : list.chunks)
        for (int64_t i = 0; i < list.in_channels; ++i)
            for (int64_t k = 0; k < chunk.blocks; ++k) {
                auto c = i % plane_channels, plane = g.first_tap[0] + i / plane_channels;
                auto m = (chunk.first + k) * list.block;
                auto present = c < g.in_channels ? std::clamp<int64_t>(list.out_channels - m, 0, list.block) : 0;
                auto* to = packed + chunk.weights + (i * chunk.blocks + k) * list.block;
                auto* from = w + m * stride + (c * g.all_taps[0] + plane) * 9;
                pack_lanes(from, stride, present, list.block, to, list.floats);
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
        for (int axis = 1; axis < 3; ++axis)
            if (g->kernel[axis] != 3 || g->stride[axis] != 1 || g->dilation[axis] != 1)
                return Err{Rejection{"is for kernels of height and width 3 with stride 1 and dilation 1"}};
        g->crop(0);
        if (g->pad[0] < 0 || g->pad[1] < 0 || g->pad[2] < 0) return Err{Rejection{"does not handle negative pads"}};
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
        auto tiles = static_cast<double>(plan.tiles), in = static_cast<double>(g->in_channels * g->kernel[0]),
             out = round(g->out_channels);
        // Each block of tiles reads all transformed weights; few tiles a block leave few accumulators a weight.
        auto filled = std::min(1., static_cast<double>(plan.block_tiles) / 8);
        auto products = 2. * kWinogradProducts * tiles * in * out / (0.85 * filled * cost.flops);
        auto weights = 4. * kWinogradProducts * in * out;
        auto readers = plan.shared ? 1. : 1. * static_cast<double>(cost.threads);
        auto reading = weights * static_cast<double>(plan.blocks) / readers / cost.bandwidth(weights);
        // Bytes of inputs or outputs and of their transforms, all from L2 or L3.
        auto transforms =
            4. * (kWinogradProducts + 16) * tiles * (round(g->in_channels * g->kernel[0]) + out) / (0.5 * cost.l2);
        return std::max((products + transforms) / cost.threads, reading) +
               0.25 * std::min(products / cost.threads, reading);
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto list = winograd_chunks(*g, tile().block);
        auto bytes = static_cast<size_t>(kWinogradProducts * list.floats) * sizeof(float);
        auto packed =
            args.packs.get(*weights_, (tile().block == 16 ? "winograd_f4:16" : "winograd_f4:8") + g->cropped(), bytes,
                           [&](void const* from, void* to) {
                               pack(list, *g, static_cast<float const*>(from), static_cast<float*>(to));
                           });
        return std::unique_ptr<runtime::Task>(std::make_unique<WinogradTask>(
            *g, info_.epilogue, tile(), isa_ == Isa::Avx512 ? winograd_avx512() : winograd_avx2(), args.threads,
            std::move(packed)));
    }
};

KernelResult make(ConvInfo const& info, Request const& request, Isa isa, std::string id) {
    if (auto reason = conv_mismatch(info.epilogue, request); !reason.empty()) return Err{Rejection{reason}};
    auto const &x = request.inputs[0], &w = request.inputs[1], &y = request.outputs[0];
    if (request.isa < isa) return Err{Rejection{"needs " + std::string(name_of(isa))}};
    if (x.dtype != DataType::F32) return Err{Rejection{"handles f32, got " + std::string(name_of(x.dtype))}};
    if (request.precision == Precision::Exact) return Err{Rejection{"has a larger error than exact precision allows"}};
    auto blocked = isa == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    if (x.layout != blocked || y.layout != blocked)
        return Err{Rejection{"expects X and Y in the blocked layout of its vectors"}};
    auto rank = w.dims.size();
    if (rank < 4 || w.dims[rank - 2] != 3 || w.dims[rank - 1] != 3 || info.group != 1)
        return Err{Rejection{"is for one group and kernels of height and width 3"}};
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
