#include "computation/operator.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/vision.h"
#include "ops/window.h"

namespace refactor::onnx {

namespace {

Inferred<std::vector<frontend::WindowAxis>> axes_of(Shape const& x, NodeView const& n) {
    auto kernel = n.integers("kernel_shape");
    if (kernel.size() + 2 != x.size())
        return Err{invalid("kernel_shape has ", kernel.size(), " entries, expected ", x.size() - 2)};
    return window_axes(n, kernel, x);
}

}  // namespace

Inferred<Shape> pooled_shape(InferContext& c, NodeView const& n, Shape const& x) {
    if (auto failure = frontend::expect_rank(c.input(0), 3, 64)) return Err{*failure};
    RG_TRY(axes, axes_of(x, n));
    bool same = n.text("auto_pad", "NOTSET").starts_with("SAME");
    Shape y{x[0], x[1]};
    for (size_t i = 0; i < axes.size(); ++i) {
        if (axes[i].pad_begin.constant().value_or(0) >= axes[i].extent() ||
            axes[i].pad_end.constant().value_or(0) >= axes[i].extent())
            return Err{
                invalid("the pads of spatial axis ", i, " are not smaller than its window of ", axes[i].extent())};
        RG_TRY(size, same ? Inferred<DimExpr>(ceil_div(x[i + 2], axes[i].stride))
                          : frontend::window_rule(x[i + 2], axes[i], n.integer("ceil_mode", 0) != 0, c.symbols()));
        y.push_back(size);
    }
    return y;
}

Inferred<LoweredPool> lower_pool_window(NodeView const& n, Shape const& x) {
    RG_TRY(axes, axes_of(x, n));
    if (axes.size() > 3) return Err{unsupported("pooling over ", axes.size(), " spatial axes")};
    LoweredPool pool;
    for (auto const& axis : axes) pool.info.kernel.push_back(axis.kernel);
    auto lowered = lower_window(axes);
    pool.info.window = std::move(lowered.window), pool.params = std::move(lowered.params);
    return pool;
}

namespace {

Status infer_pool(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(y, pooled_shape(c, n, c.shape(0)));
    RG_CHECK_STATUS(c.set(0, c.dtype(0), y));
    return c.set(1, DataType::I64, y);
}

/// Whether the window, without pads, reads all of x at its only position.
bool is_global(LoweredPool const& pool, Shape const& x, Shape const& y) {
    auto const& window = pool.info.window;
    bool global = pool.params.empty();
    for (size_t i = 0; global && i < pool.info.kernel.size(); ++i) {
        auto size = x[i + 2].constant();
        global = size && *size > 0 && *size <= pool.info.kernel[i] && y[i + 2] == DimExpr(1) &&
                 window.dilations[i] == 1 && window.pads_begin[i] == 0 && window.pads_end[i] == 0;
    }
    return global;
}

Status lower_pool(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(pool, lower_pool_window(n, c.shape(0)));
    pool.info.kind = n.op_type == "MaxPool" ? kernel::PoolKind::Max : kernel::PoolKind::Average;
    if (c.output_count() == 1 && bits_of(c.dtype(0)) > 8 && is_global(pool, c.shape(0), *c.output().shape)) {
        c.emit_output(computation::make_operator(kernel::GlobalPoolInfo{pool.info.kind}), {c.edge(0)});
        return std::nullopt;
    }
    pool.info.count_include_pad = n.integer("count_include_pad", 0) != 0;
    pool.info.column_major = n.integer("storage_order", 0) != 0;
    // Bytes are exact in f32, for which pooling is vectorised.
    auto type = bits_of(c.dtype(0)) == 8 ? DataType::F32 : c.dtype(0);
    std::vector<LowerContext::Spec> outputs{{type, *c.output().shape}};
    if (c.output_count() > 1) outputs.push_back({DataType::I64, *c.output().shape});
    auto edges = c.emit_all(computation::make_operator(std::move(pool.info), std::move(pool.params)),
                            {c.cast(c.edge(0), type)}, outputs);
    edges[0] = c.cast(edges[0], c.dtype(0));
    for (size_t i = 0; i < edges.size(); ++i) c.set_output(i, edges[i]);
    return std::nullopt;
}

Status infer_global_pool(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 3, 64));
    auto y = c.shape(0);
    for (size_t i = 2; i < y.size(); ++i) y[i] = 1;
    return c.set(0, c.dtype(0), std::move(y));
}

Status lower_global_pool(LowerContext& c, NodeView const& n) {
    auto kind = n.op_type == "GlobalMaxPool" ? kernel::PoolKind::Max : kernel::PoolKind::Average;
    c.emit_output(computation::make_operator(kernel::GlobalPoolInfo{kind}), {c.edge(0)});
    return std::nullopt;
}

/// Sizes of the tensor that the indices speak of: the one that the pooling read, as far as its window tells.
template <class Context>
Inferred<Shape> unpooled_shape(Context& c, NodeView const& n) {
    auto const& x = c.shape(0);
    RG_TRY(axes, axes_of(x, n));
    Shape y{x[0], x[1]};
    for (size_t i = 0; i < axes.size(); ++i) {
        auto size = (x[i + 2] - 1) * axes[i].stride + axes[i].kernel - axes[i].pad_begin - axes[i].pad_end;
        if (size.constant().value_or(0) < 0)
            return Err{invalid("spatial axis ", i, " of the output would have the size ", *size.constant())};
        y.push_back(size);
    }
    return y;
}

Status infer_max_unpool(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 3, 64));
    RG_CHECK_STATUS(frontend::expect_rank(c.input(1), c.shape(0).size(), c.shape(0).size()));
    for (size_t i = 0; i < c.shape(0).size(); ++i)
        RG_CHECK_STATUS(c.expect_equal(c.shape(1)[i], c.shape(0)[i], "a size of the indices"));
    RG_TRY_STATUS(inferred, unpooled_shape(c, n));
    if (!c.has(2)) return c.set(0, c.dtype(0), inferred);
    RG_CHECK_STATUS(frontend::expect_rank(c.input(2), 1, 1));
    RG_TRY_STATUS(given, c.values(2, "output_shape"));
    if (given.size() != inferred.size())
        return invalid("output_shape has ", given.size(), " entries, expected ", inferred.size());
    for (size_t i = 0; i < given.size(); ++i) {
        auto wanted = given[i].constant(), least = inferred[i].constant();
        if (wanted && least && *wanted < *least)
            return invalid("output_shape has the entry ", *wanted, " for axis ", i, ", expected at least ", *least);
    }
    return c.set(0, c.dtype(0), given);
}

Status lower_max_unpool(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(inferred, unpooled_shape(c, n));
    c.emit_output(computation::make_operator(kernel::MaxUnpoolInfo{}, inferred), {c.edge(0), c.edge(1)});
    return std::nullopt;
}

void define_max_pool(Definitions& all) {
    using K = AttributeKind;
    OperatorDef max{.name = "MaxPool",
                    .types = {{kFloats}},
                    .attributes = {{"kernel_shape", K::Ints, true},
                                   {"auto_pad", K::String},
                                   {"pads", K::Ints},
                                   {"strides", K::Ints}},
                    .infer = infer_pool,
                    .lower = lower_pool};
    all.push_back(max);
    max.since = 8, max.outputs = {1, 2}, max.attributes.push_back({"storage_order", K::Int});
    all.push_back(max);
    max.since = 10, max.attributes.insert(max.attributes.end(), {{"ceil_mode", K::Int}, {"dilations", K::Ints}});
    all.push_back(max);
    max.since = 12, max.types = {{kFloats | types(DataType::I8, DataType::U8)}};
    all.push_back(std::move(max));
}

void define_average_pool(Definitions& all) {
    using K = AttributeKind;
    OperatorDef average{.name = "AveragePool",
                        .types = {{kFloats}},
                        .attributes = {{"kernel_shape", K::Ints, true},
                                       {"auto_pad", K::String},
                                       {"pads", K::Ints},
                                       {"strides", K::Ints}},
                        .infer = infer_pool,
                        .lower = lower_pool};
    all.push_back(average);
    average.since = 7, average.attributes.push_back({"count_include_pad", K::Int});
    all.push_back(average);
    average.since = 10, average.attributes.push_back({"ceil_mode", K::Int});
    all.push_back(average);
    average.since = 19, average.attributes.push_back({"dilations", K::Ints});
    all.push_back(std::move(average));
}

}  // namespace

void define_pool(Definitions& all) {
    using K = AttributeKind;
    define_max_pool(all);
    define_average_pool(all);
    for (auto name : {"GlobalAveragePool", "GlobalMaxPool"})
        all.push_back({.name = name, .types = {{kFloats}}, .infer = infer_global_pool, .lower = lower_global_pool});
    all.push_back({.name = "MaxUnpool",
                   .since = 9,
                   .inputs = {2, 3},
                   .types = {{kFloats}, {kI64}, {kI64}},
                   .attributes = {{"kernel_shape", K::Ints, true}, {"pads", K::Ints}, {"strides", K::Ints}},
                   .infer = infer_max_unpool,
                   .lower = lower_max_unpool});
}

}  // namespace refactor::onnx
