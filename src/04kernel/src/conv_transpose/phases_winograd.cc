#include "conv/winograd_cost.h"
#include "conv/winograd_pack.h"
#include "conv/winograd_task.h"
#include "conv_transpose/conv_transpose.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Filters take several times the memory of weights, for which they have to be ahead by this.
constexpr double kMargin = 1.1;

/// The phases of a transposed convolution with stride s, each of which reads the same taps: output s u + r - pad is the
/// sum over t of x[u - t] w[r + s t]. That is one convolution with stride 1, whose channels are those of all phases.
struct MergedPhases {
    Geometry conv;
    WinogradForm form;
    WinogradWeave weave;
};

class WinogradPhasesKernel final : public NamedKernel {
    ConvTransposeInfo info_;
    Isa isa_;
    int64_t outputs_;  ///< rows and columns of a tile, of planes
    std::shared_ptr<mem_manager::Blob const> weights_;

    TileIsa const& tile() const { return isa_ == Isa::Avx512 ? tile_avx512() : tile_avx2(); }

    Result<MergedPhases, Rejection> phases(Geometry const& g) const {
        if (g.empty()) return Err{Rejection{"is for tensors with elements"}};
        if (g.kernel[0] != 1 || g.stride[0] != 1 || g.in[0] != 1 || g.out[0] != 1)
            return Err{Rejection{"is for planes and rows of them"}};
        auto conv = g;
        int64_t first[3] = {};
        for (int a = 1; a < 3; ++a) {
            auto s = g.stride[a];
            if (g.dilation[a] != 1) return Err{Rejection{"is for dilation 1"}};
            if (g.pad[a] < 0) return Err{Rejection{"does not handle negative pads"}};
            conv.kernel[a] = conv.all_taps[a] = ceil_div(g.kernel[a], s), conv.stride[a] = 1;
            // Of all phases together.
            auto u = g.pad[a] / s, u_end = (g.out[a] - 1 + g.pad[a]) / s + 1;
            conv.out[a] = u_end - u, conv.pad[a] = conv.kernel[a] - 1 - u, conv.pad_end[a] = 0;
            first[a] = u * s - g.pad[a];
        }
        auto form = winograd_form(conv.kernel[1], conv.kernel[2], outputs_);
        if (!form || form->plane() != (outputs_ > 0)) return Err{Rejection{"has no tiles for such kernels"}};
        auto blocks = ceil_div(g.out_channels, tile().block);
        for (int a = 1; a < 3; ++a)
            if (conv.kernel[a] == 1 && (g.stride[a] != 1 || conv.out[a] != g.in[a] || conv.pad[a] != 0))
                return Err{Rejection{"neither strides nor cuts an axis that the kernel does not cover"}};
        conv.out_channels = g.stride[1] * g.stride[2] * blocks * tile().block;
        return MergedPhases{conv, *form, {g.stride[1], g.stride[2], first[1], first[2], g.out[1], g.out[2], blocks}};
    }
    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        return conv_transpose_geometry(info_.window, info_.group, args);
    }

    /// [C, M, kernel] to [phase, channel of whole blocks, C, taps]; taps that a phase does not have are 0.
    static std::vector<float> phase_weights(float const* w, Geometry const& g, Geometry const& conv) {
        auto rows = conv.kernel[1], cols = conv.kernel[2], phases = g.stride[1] * g.stride[2];
        auto lanes = conv.out_channels / phases;
        std::vector<float> packed(static_cast<size_t>(conv.out_channels * g.in_channels * rows * cols));
        for (int64_t phase = 0; phase < phases; ++phase)
            for (int64_t m = 0; m < g.out_channels; ++m)
                for (int64_t c = 0; c < g.in_channels; ++c) {
                    auto* to = packed.data() + ((phase * lanes + m) * g.in_channels + c) * rows * cols;
                    auto const* from = w + (c * g.out_channels + m) * g.taps();
                    for (int64_t t = 0; t < rows * cols; ++t) {
                        auto row = phase / g.stride[2] + (rows - 1 - t / cols) * g.stride[1];
                        auto col = phase % g.stride[2] + (cols - 1 - t % cols) * g.stride[2];
                        if (row < g.kernel[1] && col < g.kernel[2]) to[t] = from[row * g.kernel[2] + col];
                    }
                }
        return packed;
    }

public:
    WinogradPhasesKernel(std::string id, ConvTransposeInfo info, Isa isa, int64_t outputs,
                         std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(std::move(id)),
          info_(std::move(info)),
          isa_(isa),
          outputs_(outputs),
          weights_(std::move(weights)) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto merged = phases(*g);
        if (!merged) return Err{merged.error()};
        auto bytes = 4. * static_cast<double>(args.inputs[0]->stored_count() + args.outputs[0]->stored_count());
        return kMargin * winograd_time(merged->conv, merged->form, isa_, args.threads, bytes);
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto merged = phases(*g);
        if (!merged) return Err{merged.error()};
        auto const& [conv, form, weave] = *merged;
        auto list = winograd_chunks(conv, form, tile().block);
        auto format = winograd_format(form, list) + ":phases" + dims_text(g->stride);
        auto packed =
            args.packs.get(*weights_, format, static_cast<size_t>(form.products() * list.floats) * sizeof(float),
                           [&](void const* from, void* to) {
                               auto w = phase_weights(static_cast<float const*>(from), *g, conv);
                               pack_winograd(form, list, conv, w.data(), static_cast<float*>(to));
                           });
        auto operations =
            2. * static_cast<double>(g->batch * g->in_size() * g->taps() * g->in_channels * g->out_channels);
        return std::unique_ptr<runtime::Task>(
            std::make_unique<WinogradTask>(conv, form, info_.epilogue, tile(), winograd_isa(form, isa_), args.threads,
                                           std::move(packed), weave, g->out_channels, operations));
    }
};

/// `outputs`: of a tile of planes, to a side; 0 for kernels along one axis.
KernelResult make(ConvTransposeInfo const& info, Request const& request, Isa isa, int64_t outputs) {
    if (auto reason = winograd_mismatch(info.epilogue, request, isa); !reason.empty()) return Err{Rejection{reason}};
    if (info.group != 1) return Err{Rejection{"is for one group, got " + std::to_string(info.group)}};
    auto id = "conv_transpose:cpu:winograd_" + (outputs ? "f" + std::to_string(outputs) : "line") +
              ":f32:" + std::string(name_of(isa));
    return std::unique_ptr<Kernel>(
        std::make_unique<WinogradPhasesKernel>(std::move(id), info, isa, outputs, request.inputs[1].constant));
}

}  // namespace

#define RG_WINOGRAD(FORM, OUTPUTS)                                                                                \
    KernelResult conv_transpose_winograd_##FORM##_avx512(ConvTransposeInfo const& info, Request const& request) { \
        return make(info, request, Isa::Avx512, OUTPUTS);                                                         \
    }                                                                                                             \
    KernelResult conv_transpose_winograd_##FORM##_avx2(ConvTransposeInfo const& info, Request const& request) {   \
        return make(info, request, Isa::Avx2, OUTPUTS);                                                           \
    }
RG_WINOGRAD(f3, 3)
RG_WINOGRAD(f4, 4)
RG_WINOGRAD(f5, 5)
RG_WINOGRAD(line, 0)
#undef RG_WINOGRAD

}  // namespace refactor::kernel
