#include "conv/winograd.h"

#include "conv/winograd_cost.h"
#include "conv/winograd_pack.h"
#include "conv/winograd_task.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

/// Tiles of 6 × 6 have twice the error of those of 4 × 4, and errors grow with the square root of the number of terms:
/// up to these channels theirs is at most that of 4 × 4 with 512. (Largest error over largest output, sums of normal
/// values, tiles of 2, 4, 6 and directly: 16 channels 2e-7, 3e-6, 6e-6, 4e-7; 64 channels 3e-7, 5e-6, 9e-6, 8e-7; 512
/// channels 7e-7, 8e-6, 2e-5, 1.5e-6.) With more, the transforms of a block no longer fit L2, and nothing is gained.
constexpr int64_t kMostChannelsOfSix = 128;
class WinogradKernel final : public NamedKernel {
    ConvInfo info_;
    Isa isa_;
    int64_t outputs_;  ///< rows and columns of a tile, of planes
    int64_t stride_;
    std::shared_ptr<mem_manager::Blob const> weights_;

    TileIsa const& tile() const { return isa_ == Isa::Avx512 ? tile_avx512() : tile_avx2(); }

    std::optional<WinogradForm> form_of(Geometry const& g) const {
        return winograd_form(g.kernel[1], g.kernel[2], outputs_, stride_);
    }
    Result<Geometry, Rejection> geometry(BindArgs const& args) const {
        auto g = conv_geometry(info_.window, info_.group, args);
        if (!g) return g;
        if (g->empty()) return Err{Rejection{"is for tensors with elements"}};
        auto form = form_of(*g);
        if (!form) return Err{Rejection{"has no tiles of these outputs for such kernels"}};
        for (int axis = 1; axis < 3; ++axis) {
            auto stride = g->kernel[axis] == 1 ? 1 : stride_;
            if (g->stride[axis] != stride)
                return Err{Rejection{"is for one stride along the axes of the kernel, and 1 along others"}};
            if (g->kernel[axis] == 1) g->dilation[axis] = 1;
            if (g->dilation[axis] != 1 && stride_ > 1) return Err{Rejection{"is for dilation 1 if there is a stride"}};
            if (g->kernel[axis] == 1 && (g->pad[axis] != 0 || g->pad_end[axis] != 0))
                return Err{Rejection{"does not pad an axis that the kernel does not cover"}};
        }
        if (form->plane())
            g->crop(0);
        else if (g->kernel[0] != 1 || g->in[0] != 1 || g->out[0] != 1)
            return Err{Rejection{"is for planes and rows of them"}};
        if (g->pad[0] < 0 || g->pad[1] < 0 || g->pad[2] < 0) return Err{Rejection{"does not handle negative pads"}};
        auto block = tile().block;
        bool whole = g->in_channels / g->group % block == 0 && g->out_channels / g->group % block == 0;
        if (g->group > 1 && !whole && g->kernel[0] * form->pieces() > 1)
            return Err{Rejection{"is for groups of whole blocks of " + std::to_string(block) +
                                 " channels if kernels are cut or have depth"}};
        return g;
    }

public:
    WinogradKernel(std::string id, ConvInfo info, Isa isa, int64_t outputs, int64_t stride,
                   std::shared_ptr<mem_manager::Blob const> weights)
        : NamedKernel(std::move(id)),
          info_(std::move(info)),
          isa_(isa),
          outputs_(outputs),
          stride_(stride),
          weights_(std::move(weights)) {}

    Result<double, Rejection> estimate(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto bytes = 4. * static_cast<double>(args.inputs[0]->stored_count() + args.outputs[0]->stored_count());
        return winograd_time(*g, *form_of(*g), isa_, args.threads, bytes);
    }

    TaskResult bind(BindArgs const& args) const override {
        auto g = geometry(args);
        if (!g) return Err{g.error()};
        auto form = *form_of(*g);
        auto list = winograd_chunks(*g, form, tile().block);
        auto format = winograd_format(form, list) + g->cropped();
        auto bytes = static_cast<size_t>(form.products() * list.floats) * sizeof(float);
        auto packed = args.packs.get(*weights_, format, bytes, [&](void const* from, void* to) {
            pack_winograd(form, list, *g, static_cast<float const*>(from), static_cast<float*>(to));
        });
        return std::unique_ptr<runtime::Task>(std::make_unique<WinogradTask>(
            *g, form, info_.epilogue, tile(), winograd_isa(form, isa_), args.threads, std::move(packed)));
    }
};

/// Whether the kernel runs along one axis.
bool is_line(Dims const& w) {
    int64_t axes = 0;
    for (size_t i = 2; i < w.size(); ++i) axes += w[i] != 1;
    return axes == 1;
}

/// The stride along an axis of the window; 1 if none is given.
int64_t stride_along(ConvInfo const& info, size_t axis) {
    return axis < info.window.strides.size() ? info.window.strides[axis] : 1;
}

/// Whether there are tiles of `outputs`² for a plane of taps.
bool has_tiles(int64_t rows, int64_t cols, int64_t outputs, int64_t stride) {
    auto form = winograd_form(rows, cols, outputs, stride);
    return form && form->plane();
}

/// `outputs`: of a tile of planes, to a side; 0 for kernels along one axis. `strided`: of 3 × 3 taps by a stride of 2.
KernelResult make(ConvInfo const& info, Request const& request, Isa isa, int64_t outputs, bool strided = false) {
    if (auto reason = winograd_mismatch(info.epilogue, request, isa); !reason.empty()) return Err{Rejection{reason}};
    auto const& w = request.inputs[1];
    auto rank = w.dims.size();
    bool const line = outputs == 0;
    auto taps = rank < 3 ? 0 : element_count(std::span<int64_t const>(w.dims).subspan(2));
    auto longest =
        rank < 3 ? 0 : static_cast<size_t>(std::max_element(w.dims.begin() + 2, w.dims.end()) - w.dims.begin()) - 2;
    auto stride = rank < 3 ? 1 : stride_along(info, line ? longest : rank - 3);
    bool const of_three = rank >= 4 && w.dims[rank - 2] == 3 && w.dims[rank - 1] == 3;
    bool fits = line ? is_line(w.dims) && winograd_form(1, taps, 0, stride)
                     : rank >= 4 && has_tiles(w.dims[rank - 2], w.dims[rank - 1], outputs, stride) &&
                           (of_three && stride == 2) == strided;
    if (!fits)
        return Err{Rejection{line ? "is for kernels of 2 or more taps along one axis"
                                  : "has no tiles of " + std::to_string(outputs) + " × " + std::to_string(outputs) +
                                        " outputs for kernels of such height, width and stride"}};
    // Of fewer channels nearly all lanes of a block are of other groups.
    int64_t const fewest = (isa == Isa::Avx512 ? 16 : 8) / 4;
    if (info.group > 1 && w.dims[1] < fewest)
        return Err{Rejection{"is for groups of " + std::to_string(fewest) + " or more channels, got " +
                             std::to_string(w.dims[1])}};
    if (outputs == 6 && w.dims[1] * (rank > 4 ? w.dims[2] : 1) > kMostChannelsOfSix)
        return Err{Rejection{"is for sums over at most " + std::to_string(kMostChannelsOfSix) + " channels"}};
    auto name = line ? "line" : "f" + std::to_string(outputs) + (strided ? "s2" : "");
    auto id = "conv:cpu:winograd_" + name + ":f32:" + std::string(name_of(isa));
    return std::unique_ptr<Kernel>(
        std::make_unique<WinogradKernel>(std::move(id), info, isa, outputs, stride, w.constant));
}

}  // namespace

std::string winograd_mismatch(Epilogue const& epilogue, Request const& request, Isa isa) {
    if (auto reason = conv_mismatch(epilogue, request); !reason.empty()) return reason;
    auto const &x = request.inputs[0], &y = request.outputs[0];
    if (request.isa < isa) return "needs " + std::string(name_of(isa));
    if (x.dtype != DataType::F32) return "handles f32, got " + std::string(name_of(x.dtype));
    if (request.precision == Precision::Exact) return "has a larger error than exact precision allows";
    auto blocked = isa == Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    if (x.layout != blocked || y.layout != blocked) return "expects X and Y in the blocked layout of its vectors";
    return request.inputs[1].constant ? "" : "needs constant weights";
}

#define RG_WINOGRAD(FORM, ...)                                                                 \
    KernelResult conv_winograd_##FORM##_avx512(ConvInfo const& info, Request const& request) { \
        return make(info, request, Isa::Avx512, __VA_ARGS__);                                  \
    }                                                                                          \
    KernelResult conv_winograd_##FORM##_avx2(ConvInfo const& info, Request const& request) {   \
        return make(info, request, Isa::Avx2, __VA_ARGS__);                                    \
    }
RG_WINOGRAD(f2, 2)
RG_WINOGRAD(f3, 3)
RG_WINOGRAD(f4, 4)
RG_WINOGRAD(f5, 5)
RG_WINOGRAD(f6, 6)
RG_WINOGRAD(f2s2, 2, true)
RG_WINOGRAD(f4s2, 4, true)
RG_WINOGRAD(line, 0)
#undef RG_WINOGRAD

}  // namespace refactor::kernel
