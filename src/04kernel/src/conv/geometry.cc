#include "conv/geometry.h"

#include <algorithm>
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

/// With W: [channels of `outer`, channels of the other tensor / group, kernel…].
Result<Geometry, Rejection> weighted_geometry(Window const& window, int64_t group, BindArgs const& args,
                                              int64_t Geometry::*outer, int64_t Geometry::*inner) {
    auto const& w = args.inputs[1]->dims;
    if (w.size() < 2) return Err{Rejection{"expects W of rank 3 to 5, got " + dims_text(w)}};
    auto g = geometry_of(window, std::span<int64_t const>(w).subspan(2), args);
    if (!g) return g;
    g->group = group;
    if (group < 1 || g->in_channels % group || g->out_channels % group || w[0] != (*g).*outer ||
        w[1] * group != (*g).*inner)
        return Err{Rejection{"expects channels that fit W and the groups: X is " + dims_text(args.inputs[0]->dims) +
                             ", W " + dims_text(w) + ", Y " + dims_text(args.outputs[0]->dims) + ", " +
                             std::to_string(group) + " groups"}};
    return g;
}

}  // namespace

void Geometry::crop(int axis) {
    auto &taps = kernel[axis], &begin = pad[axis];
    int64_t front = 0, back = 0;
    auto left = [&] { return taps - front - back; };
    for (; left() > 1; ++front) {
        auto padding = begin - front * dilation[axis];
        if (padding < dilation[axis] || (out[axis] - 1) * stride[axis] >= padding) break;
    }
    while (left() > 1 && (taps - back - 1) * dilation[axis] - begin >= in[axis]) ++back;
    // Weights are packed for each choice of taps: of many, eighths are dropped, not as many as each size would have.
    auto unit = std::max<int64_t>(1, taps / 8);
    front = front / unit * unit, back = back / unit * unit;
    if (front + back == 0) return;
    taps = left(), first_tap[axis] += front, begin -= front * dilation[axis];
    auto end = (out[axis] - 1) * stride[axis] + (taps - 1) * dilation[axis] + 1 - begin;
    pad_end[axis] = std::max<int64_t>(0, end - in[axis]);
}

Geometry Geometry::over_lanes(int64_t channels) const {
    auto g = *this;
    g.in_channels = group * ((in_channels / group + channels - 1) / channels);
    return g;
}

void Geometry::merge_axes() {
    auto whole = [&](int axis) {
        return all_taps[axis] == 1 && stride[axis] == 1 && pad[axis] == 0 && pad_end[axis] == 0 &&
               in[axis] == out[axis];
    };
    for (int axis = 1; axis >= 0; --axis) {
        if (!whole(axis) || !whole(axis + 1)) continue;
        in[axis + 1] *= in[axis], out[axis + 1] *= out[axis];
        for (int to = axis; to > 0; --to)
            for (auto* sizes : {in, out, kernel, stride, dilation, pad, pad_end, first_tap, all_taps})
                sizes[to] = sizes[to - 1];
        in[0] = out[0] = kernel[0] = stride[0] = dilation[0] = all_taps[0] = 1;
        pad[0] = pad_end[0] = first_tap[0] = 0;
    }
}

SmallVector<int64_t, 64> Geometry::tap_indices() const {
    SmallVector<int64_t, 64> indices;
    for (int64_t d = 0; d < kernel[0]; ++d)
        for (int64_t h = 0; h < kernel[1]; ++h)
            for (int64_t v = 0; v < kernel[2]; ++v)
                indices.push_back(((first_tap[0] + d) * all_taps[1] + first_tap[1] + h) * all_taps[2] + first_tap[2] +
                                  v);
    return indices;
}

std::string Geometry::cropped() const {
    if (taps() == all_taps[0] * all_taps[1] * all_taps[2]) return {};
    return ":taps" + dims_text(first_tap) + dims_text(kernel);
}

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
    std::copy_n(g.kernel, 3, g.all_taps);
    return g;
}

Result<Geometry, Rejection> conv_geometry(Window const& window, int64_t group, BindArgs const& args) {
    return weighted_geometry(window, group, args, &Geometry::out_channels, &Geometry::in_channels);
}

Result<Geometry, Rejection> merged_conv_geometry(ConvInfo const& info, BindArgs const& args) {
    auto g = conv_geometry(info.window, info.group, args);
    if (!g) return g;
    if (g->empty()) return Err{Rejection{"is for tensors with elements"}};
    g->merge_axes();
    return g;
}

Result<Geometry, Rejection> conv_transpose_geometry(Window const& window, int64_t group, BindArgs const& args) {
    return weighted_geometry(window, group, args, &Geometry::in_channels, &Geometry::out_channels);
}

}  // namespace refactor::kernel
