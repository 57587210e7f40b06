#include "kernel/ops/vision.h"

#include "kernel/ops/movement.h"
#include "operator_def.h"

// Sampling, columns of windows, regions.

namespace refactor::pnnx {

namespace {

using kernel::GridMode;
using kernel::GridPadding;

void build_grid_sample(Call& c) {
    auto *x = c.tensor("input"), *grid = c.tensor("grid");
    c.expect_rank(x, 4, 5, "the input");
    c.expect_rank(grid, Call::rank(x), Call::rank(x), "the grid");
    auto mode = c.text("mode", "bilinear"), padding = c.text("padding_mode", "zeros");
    kernel::GridSampleInfo info;
    if (mode == "nearest")
        info.mode = GridMode::Nearest;
    else if (mode == "bicubic")
        info.mode = GridMode::Cubic;
    else if (mode != "bilinear")
        refuse_invalid("mode is \"", mode, "\", expected bilinear, nearest or bicubic");
    if (padding == "border")
        info.padding = GridPadding::Border;
    else if (padding == "reflection")
        info.padding = GridPadding::Reflection;
    else if (padding != "zeros")
        refuse_invalid("padding_mode is \"", padding, "\", expected zeros, border or reflection");
    info.align_corners = c.flag("align_corners", false);
    auto const& shape = Call::shape(grid);
    c.expect_equal(shape.back(), static_cast<int64_t>(Call::rank(x) - 2), "the last size of the grid");
    c.expect_equal(shape[0], Call::shape(x)[0], "the batch of the grid");
    Shape target{Call::shape(x)[0], Call::shape(x)[1]};
    target.insert(target.end(), shape.begin() + 1, shape.end() - 1);
    c.set(c.emit(info, {x, grid}, Call::type_of(x), std::move(target)));
}

/// Centres of `size` pixels in [-1, 1], as [size]: the corners themselves if `corners`.
Edge centres(Call& c, DimExpr const& size, bool corners, DataType dtype) {
    auto* index = c.cast(c.range(0, 1, size), dtype);
    auto* count = c.size_edge(Scalar::of_int(size), dtype);
    return c.map({index, count}, [&](Expression& e, auto const& v) {
        auto number = [&](double value) { return e.constant(dtype, value); };
        if (corners) {
            // One pixel alone lies in the middle.
            auto gaps = e.binary(ExprOp::Sub, v[1], number(1));
            auto scaled = e.binary(ExprOp::Div, e.binary(ExprOp::Mul, v[0], number(2)), gaps);
            return e.select(e.binary(ExprOp::Equal, gaps, number(0)), number(0),
                            e.binary(ExprOp::Sub, scaled, number(1)));
        }
        auto odd = e.binary(ExprOp::Add, e.binary(ExprOp::Mul, v[0], number(2)), number(1));
        return e.binary(ExprOp::Sub, e.binary(ExprOp::Div, odd, v[1]), number(1));
    });
}

/// Rows of homogeneous pixel centres times theta.
void build_affine_grid(Call& c) {
    auto* theta = c.tensor("theta");
    c.expect_rank(theta, 3, 3, "theta");
    auto size = c.sizes("size");
    auto axes = static_cast<int64_t>(size.size()) - 2;
    if (axes != 2 && axes != 3) refuse_invalid("size has ", size.size(), " entries, expected 4 or 5");
    c.expect_equal(Call::shape(theta)[1], axes, "the rows of theta");
    c.expect_equal(Call::shape(theta)[2], axes + 1, "the columns of theta");
    Shape space(size.begin() + 2, size.end()), column = space;
    column.emplace_back(1);
    auto dtype = Call::type_of(theta);
    std::vector<Edge> columns;
    for (auto axis = static_cast<size_t>(axes); axis-- > 0;) {
        Shape along(space.size() + 1, DimExpr(1));
        along[axis] = space[axis];
        auto* line = centres(c, space[axis], c.flag("align_corners", false), dtype);
        columns.push_back(c.expand(c.reshape(line, along), column));
    }
    columns.push_back(c.filled(dtype, 1, column));
    auto count = element_count(space);
    auto* points = c.reshape(c.concat(columns, space.size()), {DimExpr(1), count, DimExpr(axes + 1)});
    auto target = space;
    target.insert(target.begin(), size[0]);
    target.emplace_back(axes);
    c.set(c.reshape(c.matmul(points, theta, true), target));
}

struct Columns {
    Dims kernel;
    kernel::Window window;
    std::vector<frontend::WindowAxis> axes;
};

Columns columns_of(Call& c) {
    auto kernel = c.integers("kernel_size", 2, 1), strides = c.integers("stride", 2, 1);
    auto pads = c.integers("padding", 2, 0), dilations = c.integers("dilation", 2, 1);
    Columns columns;
    for (size_t i = 0; i < 2; ++i) {
        constexpr int64_t kMost = int64_t{1} << 30;
        for (auto value : {kernel[i], strides[i], dilations[i], pads[i] + 1})
            if (value < 1 || value > kMost) refuse_invalid("the window has the entry ", value);
        columns.kernel.push_back(kernel[i]);
        columns.window.strides.push_back(strides[i]), columns.window.dilations.push_back(dilations[i]);
        columns.window.pads_begin.push_back(pads[i]), columns.window.pads_end.push_back(pads[i]);
        columns.axes.push_back({kernel[i], strides[i], dilations[i], pads[i], pads[i]});
    }
    return columns;
}

/// Columns of windows [N, C · taps, positions]: each tap is a strided slice of the padded picture.
void build_unfold(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 4, 4, "the input");
    auto columns = columns_of(c);
    if (columns.kernel[0] * columns.kernel[1] > 4096) refuse_unsupported("a window of more than 4096 taps");
    auto shape = Call::shape(x);
    std::vector<DimExpr> begins(4), positions;
    for (size_t i = 0; i < 2; ++i) {
        auto const& axis = columns.axes[i];
        positions.push_back(take(frontend::window_rule(shape[i + 2], axis, false, c.symbols())));
        begins[i + 2] = axis.pad_begin, shape[i + 2] = shape[i + 2] + axis.pad_begin + axis.pad_end;
    }
    if (shape != Call::shape(x)) x = c.emit(kernel::PadInfo{}, {x}, Call::type_of(x), shape, begins);
    std::vector<Edge> taps;
    auto const &rows = columns.axes[0], &cols = columns.axes[1];
    for (int64_t i = 0; i < rows.kernel; ++i)
        for (int64_t k = 0; k < cols.kernel; ++k) {
            auto top = i * rows.dilation, left = k * cols.dilation;
            auto* part = c.slice(x, 2, top, positions[0] * rows.stride + (top - rows.stride + 1), rows.stride);
            part = c.slice(part, 3, left, positions[1] * cols.stride + (left - cols.stride + 1), cols.stride);
            taps.push_back(c.reshape(part, {shape[0], shape[1], DimExpr(1), positions[0], positions[1]}));
        }
    auto* all = c.concat(taps, 2);
    c.set(c.reshape(all, {shape[0], shape[1] * (rows.kernel * cols.kernel), positions[0] * positions[1]}));
}

void build_fold(Call& c) {
    auto* x = c.tensor("input");
    c.expect_rank(x, 3, 3, "the input");
    auto columns = columns_of(c);
    auto size = c.sizes("output_size");
    if (size.size() == 1) size.resize(2, size[0]);
    if (size.size() != 2) refuse_invalid("output_size has ", size.size(), " entries, expected 2");
    auto taps = columns.kernel[0] * columns.kernel[1];
    auto const& from = Call::shape(x);
    if (auto rows = from[1].constant(); rows && *rows % taps)
        refuse_invalid(*rows, " rows are not divisible by a window of ", taps);
    DimExpr positions = 1;
    for (size_t i = 0; i < 2; ++i)
        positions = positions * take(frontend::window_rule(size[i], columns.axes[i], false, c.symbols()));
    c.expect_equal(from[2], positions, "the number of columns");
    kernel::Col2ImInfo info{columns.kernel, columns.window};
    c.set(c.emit(std::move(info), {x}, Call::type_of(x), {from[0], floor_div(from[1], taps), size[0], size[1]}));
}

/// Boxes [R, 5] have the number of the picture in front.
void build_roi_align(Call& c) {
    auto *x = c.tensor("input"), *boxes = c.tensor("boxes");
    c.expect_rank(x, 4, 4, "the input");
    c.expect_rank(boxes, 2, 2, "the boxes");
    c.expect_equal(Call::shape(boxes)[1], 5, "the columns of the boxes");
    auto size = c.integers("output_size", 2, 1);
    kernel::RoiAlignInfo info;
    info.half_pixel = c.flag("aligned", false);
    info.sampling_ratio = std::max<int64_t>(c.integer("sampling_ratio", -1), 0);
    info.spatial_scale = static_cast<float>(c.number("spatial_scale", 1));
    auto count = Call::shape(boxes)[0];
    auto* numbers = c.cast(c.reshape(c.slice(boxes, 1, 0, 1), {count}), DataType::I64);
    c.set(c.emit(info, {x, c.slice(boxes, 1, 1, 5), numbers}, Call::type_of(x),
                 {count, Call::shape(x)[1], size[0], size[1]}));
}

/// Columns sampled at the offsets, times the weights of each group.
void build_deform_conv(Call& c) {
    auto *x = c.tensor("input"), *offset = c.tensor("offset"), *weight = c.tensor("weight");
    auto* mask = c.tensor_or_null("mask");
    for (auto* edge : {x, offset, weight}) c.expect_rank(edge, 4, 4, "an operand");
    kernel::DeformColumnsInfo info;
    auto strides = c.integers("stride", 2, 1), pads = c.integers("padding", 2, 0),
         dilations = c.integers("dilation", 2, 1);
    Shape positions;
    for (size_t i = 0; i < 2; ++i) {
        auto kernel = Call::shape(weight)[i + 2].constant();
        if (!kernel) refuse_unsupported("weights of unknown size");
        frontend::WindowAxis axis{*kernel, strides[i], dilations[i], pads[i], pads[i]};
        if (strides[i] < 1 || dilations[i] < 1 || pads[i] < 0 || *kernel > (1 << 20) || dilations[i] > (1 << 20))
            refuse_invalid("the window is not one");
        info.kernel.push_back(*kernel);
        info.window.strides.push_back(strides[i]), info.window.dilations.push_back(dilations[i]);
        info.window.pads_begin.push_back(pads[i]), info.window.pads_end.push_back(pads[i]);
        positions.push_back(take(frontend::window_rule(Call::shape(x)[i + 2], axis, false, c.symbols())));
    }
    auto taps = info.kernel[0] * info.kernel[1];
    auto width = Call::shape(offset)[1].constant();
    if (!width || *width % (2 * taps)) refuse_invalid("the offsets do not fit to a window of ", taps, " taps");
    info.groups = *width / (2 * taps);
    auto const &from = Call::shape(x), &w = Call::shape(weight);
    auto groups = w[1] == from[1] ? DimExpr(1) : floor_div(from[1], w[1]);
    c.expect_equal(from[1], w[1] * groups, "the number of channels");
    auto count = positions[0] * positions[1];
    std::vector<Edge> inputs{x, offset};
    if (mask) inputs.push_back(mask);
    auto* columns = c.emit(info, inputs, Call::type_of(x), {from[0], from[1] * taps, count});
    auto* rows = c.reshape(weight, {groups, floor_div(w[0], groups), w[1] * taps});
    auto* y = c.matmul(rows, c.reshape(columns, {from[0], groups, w[1] * taps, count}));
    y = c.reshape(y, {from[0], w[0], positions[0], positions[1]});
    if (auto* bias = c.is_tensor("bias") ? c.tensor("bias") : nullptr)
        y = c.binary(ExprOp::Add, y, c.reshape(bias, {w[0], DimExpr(1), DimExpr(1)}));
    c.set(y);
}

void build_max_unpool(Call& c) {
    auto *x = c.tensor("input"), *positions = c.tensor("indices");
    auto axes = static_cast<size_t>(c.type[c.type.size() - 2] - '0');
    c.expect_rank(x, axes + 2, axes + 2, "the input");
    auto kernel = c.integers("kernel_size", axes, 1);
    auto strides = c.has("stride") ? c.integers("stride", axes, 1) : kernel;
    auto pads = c.integers("padding", axes, 0);
    auto target = Call::shape(x);
    auto wanted = c.has("output_size") ? c.sizes("output_size") : std::vector<DimExpr>{};
    for (size_t i = 0; i < axes; ++i) target[i + 2] = (target[i + 2] - 1) * strides[i] + (kernel[i] - 2 * pads[i]);
    if (wanted.size() >= axes)
        std::copy(wanted.end() - static_cast<std::ptrdiff_t>(axes), wanted.end(), target.begin() + 2);
    // torch counts positions within one plane, the kernel within the whole tensor.
    DimExpr plane = 1;
    for (size_t i = 2; i < target.size(); ++i) plane = plane * target[i];
    Shape planes(Call::rank(x), DimExpr(1));
    planes[0] = target[0], planes[1] = target[1];
    auto* number = c.reshape(c.range(0, 1, target[0] * target[1]), planes);
    auto* size = c.size_edge(Scalar::of_int(plane), DataType::I64);
    auto* flat = c.map({positions, number, size}, [](Expression& e, auto const& v) {
        return e.binary(ExprOp::Add, v[0], e.binary(ExprOp::Mul, v[1], v[2]));
    });
    c.set(c.emit(kernel::MaxUnpoolInfo{}, {x, flat}, Call::type_of(x), target, target));
}

void build_cross(Call& c) {
    auto *a = c.tensor("input"), *b = c.tensor("other");
    auto shape = c.broadcast({Call::shape(a), Call::shape(b)});
    a = c.expand(a, shape), b = c.expand(b, shape);
    size_t axis = 0;
    if (c.has("dim"))
        axis = c.axis(c.integer("dim"), shape.size());
    else
        while (axis < shape.size() && shape[axis] != DimExpr(3)) ++axis;
    if (axis == shape.size() || shape[axis] != DimExpr(3)) refuse_invalid("no axis of size 3 in ", c.text_of(shape));
    std::vector<Edge> parts;
    for (int64_t i = 0; i < 3; ++i) {
        auto pick = [&](Edge x, int64_t k) { return c.slice(x, axis, k % 3, k % 3 + 1); };
        parts.push_back(
            c.map({pick(a, i + 1), pick(b, i + 2), pick(a, i + 2), pick(b, i + 1)}, [](Expression& e, auto const& v) {
                return e.binary(ExprOp::Sub, e.binary(ExprOp::Mul, v[0], v[1]), e.binary(ExprOp::Mul, v[2], v[3]));
            }));
    }
    c.set(c.concat(parts, axis));
}

}  // namespace

void define_vision(Definitions& all) {
    all.push_back(
        {"F.grid_sample aten::grid_sampler", "input grid mode padding_mode align_corners", build_grid_sample});
    all.push_back({"F.affine_grid", "theta size align_corners", build_affine_grid});
    all.push_back({"nn.Unfold F.unfold aten::im2col", "input kernel_size dilation padding stride", build_unfold});
    all.push_back({"nn.Fold F.fold aten::col2im", "input output_size kernel_size dilation padding stride", build_fold});
    all.push_back({"torchvision.ops.RoIAlign torchvision.ops.roi_align",
                   "input boxes output_size spatial_scale sampling_ratio aligned", build_roi_align});
    all.push_back(
        {"torchvision.ops.DeformConv2d torchvision.ops.deform_conv2d",
         "input offset mask weight bias stride padding dilation | groups in_channels out_channels kernel_size",
         build_deform_conv});
    all.push_back({"nn.MaxUnpool1d nn.MaxUnpool2d nn.MaxUnpool3d F.max_unpool1d F.max_unpool2d F.max_unpool3d",
                   "input indices kernel_size stride padding output_size", build_max_unpool});
    all.push_back({"torch.cross aten::cross aten::linalg_cross", "input other dim", build_cross});
}

}  // namespace refactor::pnnx
