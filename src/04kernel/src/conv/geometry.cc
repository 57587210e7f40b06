#include "conv/geometry.h"

#include <utility>

namespace refactor::kernel {

namespace {

/// Product of the sizes after the first two.
int64_t spatial_count(Dims const& dims) {
    return dims.size() < 2 ? 1 : element_count(std::span<int64_t const>(dims).subspan(2));
}

/// Moves axes of one element to the front. That changes no address, and kernels cut rows of the last axis: [N, C, 512,
/// 1] is one row, not 512.
void move_unit_axes_first(Geometry& g) {
    auto is_unit = [&](size_t axis) {
        return g.in[axis] == 1 && g.out[axis] == 1 && g.kernel[axis] == 1 && g.pad[axis] == 0 && g.pad_end[axis] == 0;
    };
    for (int round = 0; round < 2; ++round)
        for (size_t axis = 2; axis > 0; --axis) {
            if (!is_unit(axis) || is_unit(axis - 1)) continue;
            for (auto* sizes : {g.in, g.out, g.kernel, g.stride, g.dilation, g.pad, g.pad_end})
                std::swap(sizes[axis], sizes[axis - 1]);
        }
}

}  // namespace

std::string dims_text(std::span<int64_t const> dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
    return text + "]";
}

std::string to_string(Window const& window) {
    return "strides=" + dims_text(window.strides) + " dilations=" + dims_text(window.dilations) +
           " pads=" + dims_text(window.pads_begin) + dims_text(window.pads_end);
}

Addressing::Addressing(TensorDesc const& desc)
    : channels(desc.dims[1]), spatial(spatial_count(desc.dims)), block(block_of(desc.layout)) {}

Result<Geometry, Rejection> geometry_of(Window const& window, std::span<int64_t const> kernel, BindArgs const& args) {
    auto const &x = args.inputs[0]->dims, &y = args.outputs[0]->dims;
    auto rank = x.size() - 2;
    if (x.size() < 3 || x.size() > 5 || y.size() != x.size() || kernel.size() != rank)
        return Err{Rejection{"expects X and Y of equal rank 3 to 5, X is " + dims_text(x) + ", Y " + dims_text(y) +
                             ", kernel " + dims_text(kernel)}};
    auto entry = [&](Dims const& list, size_t i, int64_t otherwise) { return i < list.size() ? list[i] : otherwise; };
    Geometry g;
    g.batch = x[0], g.in_channels = x[1], g.out_channels = y[1];
    for (size_t axis = 0; axis < 3; ++axis) {
        if (axis + rank < 3) {
            g.in[axis] = g.out[axis] = g.kernel[axis] = g.stride[axis] = g.dilation[axis] = 1;
            g.pad[axis] = g.pad_end[axis] = 0;
            continue;
        }
        auto i = axis + rank - 3;
        g.in[axis] = x[2 + i], g.out[axis] = y[2 + i], g.kernel[axis] = kernel[i];
        g.stride[axis] = entry(window.strides, i, 1), g.dilation[axis] = entry(window.dilations, i, 1);
        bool symbolic = args.params.size() >= 2 * rank;
        g.pad[axis] = symbolic ? args.params[i] : entry(window.pads_begin, i, 0);
        g.pad_end[axis] = symbolic ? args.params[rank + i] : entry(window.pads_end, i, 0);
        if (g.stride[axis] < 1 || g.dilation[axis] < 1 || g.kernel[axis] < 1)
            return Err{Rejection{"expects positive strides, dilations and kernel sizes, got " + to_string(window)}};
    }
    move_unit_axes_first(g);
    return g;
}

}  // namespace refactor::kernel
