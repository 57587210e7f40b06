#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "operator_def.h"

#include <cmath>

// Pooling over 1 to 3 axes: windows, adaptive, and the p-norm.

namespace refactor::pnnx {

namespace {

using frontend::WindowAxis;
using kernel::PoolKind;

constexpr int64_t kMost = int64_t{1} << 40;

/// "nn.MaxPool2d" → 2
size_t spatial_axes(std::string_view type) { return static_cast<size_t>(type[type.size() - 2] - '0'); }

bool is_max(Call& c) { return c.type.find("Max") != c.type.npos || c.type.find("max") != c.type.npos; }

/// The input with a batch axis.
Edge batched(Call& c, size_t axes) {
    auto* x = c.tensor("input");
    c.expect_rank(x, axes + 1, axes + 2, "the input");
    return Call::rank(x) == axes + 2 ? x : c.unsqueeze(x, 0);
}

/// The result without the batch axis that `batched` has added.
void set_unbatched(Call& c, size_t i, Edge y, size_t axes) {
    bool added = Call::rank(c.tensor("input")) == axes + 1;
    c.set(i, added ? c.squeeze(y, 0) : y);
}

struct Pooling {
    std::vector<WindowAxis> axes;
    Shape y;
};

Pooling window(Call& c, Edge x, size_t count) {
    auto kernel = c.integers("kernel_size", count, 1);
    bool has_stride = c.has("stride") && !c.sizes("stride").empty();
    auto strides = has_stride ? c.integers("stride", count, 1) : kernel;
    auto pads = c.integers("padding", count, 0), dilations = c.integers("dilation", count, 1);
    bool ceil = c.flag("ceil_mode", false);
    Pooling pooling{{}, {Call::shape(x)[0], Call::shape(x)[1]}};
    for (size_t i = 0; i < count; ++i) {
        for (auto value : {kernel[i], strides[i], dilations[i]})
            if (value < 1 || value > kMost) refuse_invalid("kernel_size, stride or dilation has the entry ", value);
        if (kernel[i] > 1 && dilations[i] > kMost / kernel[i]) refuse_invalid("the window is too large");
        if (pads[i] < 0 || pads[i] > kernel[i] / 2)
            refuse_invalid("padding ", pads[i], " is not within 0 and half of the window of ", kernel[i]);
        pooling.axes.push_back({kernel[i], strides[i], dilations[i], pads[i], pads[i]});
        pooling.y.push_back(take(frontend::window_rule(Call::shape(x)[i + 2], pooling.axes.back(), ceil, c.symbols())));
    }
    return pooling;
}

kernel::PoolInfo info_of(Pooling const& pooling, PoolKind kind) {
    kernel::PoolInfo info;
    info.kind = kind;
    for (auto const& axis : pooling.axes) {
        info.kernel.push_back(axis.kernel);
        info.window.strides.push_back(axis.stride), info.window.dilations.push_back(axis.dilation);
        info.window.pads_begin.push_back(*axis.pad_begin.constant());
        info.window.pads_end.push_back(*axis.pad_end.constant());
    }
    return info;
}

void build_max_pool(Call& c) {
    auto count = spatial_axes(c.type);
    auto* x = batched(c, count);
    auto pooling = window(c, x, count);
    std::vector<LowerContext::Spec> outputs{{Call::type_of(x), pooling.y}};
    if (c.wants(1)) outputs.push_back({DataType::I64, pooling.y});
    auto edges = c.emit_all(info_of(pooling, PoolKind::Max), {x}, std::move(outputs));
    if (edges.size() > 1) {
        // torch counts positions within one plane of a channel, the kernel within the whole tensor.
        DimExpr plane = 1;
        for (size_t i = 2; i < Call::rank(x); ++i) plane = plane * Call::shape(x)[i];
        auto* size = c.size_edge(Scalar::of_int(plane), DataType::I64);
        edges[1] =
            c.map({edges[1], size}, [](Expression& e, auto const& v) { return e.binary(ExprOp::Mod, v[0], v[1]); });
    }
    for (size_t i = 0; i < edges.size(); ++i) set_unbatched(c, i, edges[i], count);
}

/// Average of windows that count their pads (so that the sum is the average times the window).
Edge average(Call& c, Edge x, Pooling const& pooling, bool include_pad) {
    auto info = info_of(pooling, PoolKind::Average);
    info.count_include_pad = include_pad;
    return c.emit(std::move(info), {x}, Call::type_of(x), pooling.y);
}

void build_avg_pool(Call& c) {
    auto count = spatial_axes(c.type);
    auto* x = batched(c, count);
    auto pooling = window(c, x, count);
    if (!c.has("divisor_override")) {
        set_unbatched(c, 0, average(c, x, pooling, c.flag("count_include_pad", true)), count);
        return;
    }
    if (c.flag("ceil_mode", false)) refuse_unsupported("divisor_override with ceil_mode");
    double window_size = 1;
    for (auto const& axis : pooling.axes) window_size *= static_cast<double>(axis.kernel);
    auto* mean = average(c, x, pooling, true);
    auto* factor = c.scalar(Call::type_of(x), window_size / c.number("divisor_override"));
    set_unbatched(c, 0, c.binary(ExprOp::Mul, mean, factor), count);
}

/// sign(s) |s|^(1/p) of the sum s of x^p over windows, as torch computes it.
void build_lp_pool(Call& c) {
    auto count = spatial_axes(c.type);
    auto* x = batched(c, count);
    auto dtype = Call::type_of(x);
    auto p = c.number("norm_type");
    if (!(p > 0)) refuse_invalid("norm_type is ", p, ", expected a positive number");
    auto pooling = window(c, x, count);
    if (c.flag("ceil_mode", false)) refuse_unsupported("ceil_mode of a p-norm pooling");
    double window_size = 1;
    for (auto const& axis : pooling.axes) window_size *= static_cast<double>(axis.kernel);
    auto* powers = c.map({x}, [&](Expression& e, auto const& v) {
        return p == 2 ? e.binary(ExprOp::Mul, v[0], v[0]) : e.binary(ExprOp::Pow, v[0], e.constant(dtype, p));
    });
    auto* mean = average(c, powers, pooling, true);
    auto* y = c.map({mean}, [&](Expression& e, auto const& v) {
        auto sum = e.unary(ExprOp::Relu, e.binary(ExprOp::Mul, v[0], e.constant(dtype, window_size)));
        return p == 2 ? e.unary(ExprOp::Sqrt, sum) : e.binary(ExprOp::Pow, sum, e.constant(dtype, 1 / p));
    });
    set_unbatched(c, 0, y, count);
}

/// One axis cut into `size` parts that may overlap: part i is [floor(i n / size), ceil((i + 1) n / size)).
Edge adapt_axis(Call& c, Edge x, size_t axis, int64_t size, kernel::ReduceKind kind) {
    auto n = Call::shape(x)[axis].constant();
    if (!n) refuse_unsupported("an adaptive pooling to ", size, " of an axis of unknown size");
    if (size > 4096) refuse_unsupported("an adaptive pooling to ", size, " parts");
    std::vector<Edge> parts;
    for (int64_t i = 0; i < size; ++i) {
        auto begin = i * *n / size, end = ((i + 1) * *n + size - 1) / size;
        parts.push_back(c.reduce(kind, c.slice(x, axis, begin, end), {axis}, true));
    }
    return c.concat(parts, axis);
}

/// Windows of equal size where all divide, parts axis by axis otherwise: both pools are separable.
Edge adaptive(Call& c, Edge x, std::vector<DimExpr> const& target) {
    bool max = is_max(c);
    auto count = target.size();
    auto const& from = Call::shape(x);
    bool global = true, divides = true;
    Pooling pooling{{}, {from[0], from[1]}};
    for (size_t i = 0; i < count; ++i) {
        auto n = from[i + 2].constant(), size = target[i].constant();
        global = global && target[i] == DimExpr(1);
        divides = divides && (target[i] == from[i + 2] || (n && size && *size > 0 && *n % *size == 0));
        auto window = target[i] == from[i + 2] ? 1 : divides ? *n / *size : 0;
        pooling.axes.push_back({window, window, 1, 0, 0});
        pooling.y.push_back(target[i]);
    }
    auto kind = max ? PoolKind::Max : PoolKind::Average;
    if (global) return c.emit(kernel::GlobalPoolInfo{kind}, {x}, Call::type_of(x), pooling.y);
    if (divides && count <= 3) return c.emit(info_of(pooling, kind), {x}, Call::type_of(x), pooling.y);
    for (size_t i = 0; i < count; ++i) {
        if (target[i] == Call::shape(x)[i + 2]) continue;
        auto reduction = max ? kernel::ReduceKind::Max : kernel::ReduceKind::Mean;
        auto size = target[i].constant();
        if (!size) refuse_unsupported("an adaptive pooling to a size that is not known");
        if (*size < 1) refuse_invalid("output_size has the entry ", *size);
        x = *size == 1 ? c.reduce(reduction, x, {i + 2}, true) : adapt_axis(c, x, i + 2, *size, reduction);
    }
    return x;
}

void build_adaptive(Call& c) {
    auto count = spatial_axes(c.type);
    auto* x = batched(c, count);
    // None is written as 0: the size stays.
    std::vector<DimExpr> target;
    auto* given = c.argument("output_size");
    if (given && given->is(Term::Kind::List)) {
        for (auto const& entry : given->items) {
            auto item = c.evaluate(entry);
            auto* number = std::get_if<Scalar>(&item.value);
            target.push_back(number && number->integer() ? *number->integer() : DimExpr(0));
        }
    } else {
        target = c.sizes("output_size");
    }
    if (target.size() == 1) target.resize(count, target[0]);
    if (target.size() != count) refuse_invalid("output_size has ", target.size(), " entries, expected ", count);
    for (size_t i = 0; i < count; ++i)
        if (target[i] == DimExpr(0)) target[i] = Call::shape(x)[i + 2];
    auto* y = adaptive(c, x, target);
    set_unbatched(c, 0, y, count);
    if (!c.wants(1)) return;
    // Positions of the largest: of the whole plane only.
    for (auto const& size : target)
        if (size != DimExpr(1)) refuse_unsupported("positions of an adaptive pooling to other sizes than 1");
    DimExpr plane = 1;
    for (size_t i = 0; i < count; ++i) plane = plane * Call::shape(x)[i + 2];
    auto* rows = c.reshape(x, {Call::shape(x)[0], Call::shape(x)[1], plane});
    kernel::ArgReduceInfo info;
    info.axis = 2;
    auto* positions = c.emit(info, {rows}, DataType::I64, {Call::shape(x)[0], Call::shape(x)[1], DimExpr(1)});
    set_unbatched(c, 1, c.reshape(positions, Call::shape(y)), count);
}

}  // namespace

void define_pool(Definitions& all) {
    all.push_back({"nn.MaxPool1d nn.MaxPool2d nn.MaxPool3d F.max_pool1d F.max_pool2d F.max_pool3d",
                   "input kernel_size stride padding dilation ceil_mode | return_indices", build_max_pool});
    all.push_back({"nn.AvgPool1d nn.AvgPool2d nn.AvgPool3d F.avg_pool1d F.avg_pool2d F.avg_pool3d",
                   "input kernel_size stride padding ceil_mode count_include_pad divisor_override", build_avg_pool});
    all.push_back({"nn.LPPool1d nn.LPPool2d nn.LPPool3d F.lp_pool1d F.lp_pool2d F.lp_pool3d",
                   "input norm_type kernel_size stride ceil_mode", build_lp_pool});
    all.push_back(
        {"nn.AdaptiveAvgPool1d nn.AdaptiveAvgPool2d nn.AdaptiveAvgPool3d F.adaptive_avg_pool1d "
         "F.adaptive_avg_pool2d F.adaptive_avg_pool3d nn.AdaptiveMaxPool1d nn.AdaptiveMaxPool2d "
         "nn.AdaptiveMaxPool3d F.adaptive_max_pool1d F.adaptive_max_pool2d F.adaptive_max_pool3d",
         "input output_size return_indices", build_adaptive});
}

}  // namespace refactor::pnnx
