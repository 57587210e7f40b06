#include "computation/operator.h"
#include "kernel/ops/conv.h"
#include "ops/window.h"

namespace refactor::onnx {

namespace {

Inferred<std::vector<frontend::WindowAxis>> axes_of(Shape const& x, NodeView const& n) {
    auto kernel = n.integers("kernel_shape");
    if (kernel.size() + 2 != x.size())
        return Err{invalid("kernel_shape has ", kernel.size(), " entries, expected ", x.size() - 2)};
    return window_axes(n, kernel, x);
}

Status infer_pool(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 3, 64));
    auto const& x = c.shape(0);
    RG_TRY_STATUS(axes, axes_of(x, n));
    bool same = n.text("auto_pad", "NOTSET").starts_with("SAME");
    Shape y{x[0], x[1]};
    for (size_t i = 0; i < axes.size(); ++i) {
        if (axes[i].pad_begin.constant().value_or(0) >= axes[i].extent() ||
            axes[i].pad_end.constant().value_or(0) >= axes[i].extent())
            return invalid("the pads of spatial axis ", i, " are not smaller than its window of ", axes[i].extent());
        RG_TRY_STATUS(size,
                      frontend::window_rule(x[i + 2], axes[i], !same && n.integer("ceil_mode", 0) != 0, c.symbols()));
        y.push_back(size);
    }
    RG_CHECK_STATUS(c.set(0, c.dtype(0), y));
    return c.set(1, DataType::I64, y);
}

Status lower_pool(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(axes, axes_of(c.shape(0), n));
    if (axes.size() > 3) return unsupported("pooling over ", axes.size(), " spatial axes");
    auto [window, params] = lower_window(axes);
    if (!params.empty()) return unsupported("auto_pad SAME with sizes that are not known");
    kernel::PoolInfo info;
    info.kind = n.op_type == "MaxPool" ? kernel::PoolKind::Max : kernel::PoolKind::Average;
    for (auto const& axis : axes) info.kernel.push_back(axis.kernel);
    info.window = std::move(window);
    info.count_include_pad = n.integer("count_include_pad", 0) != 0;
    info.column_major = n.integer("storage_order", 0) != 0;
    std::vector<LowerContext::Spec> outputs{{c.dtype(0), *c.output().shape}};
    if (c.output_count() > 1) outputs.push_back({DataType::I64, *c.output().shape});
    auto edges = c.emit_all(computation::make_operator(std::move(info)), {c.edge(0)}, outputs);
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

}  // namespace

void define_pool(Definitions& all) {
    OperatorDef max{.name = "MaxPool",
                    .outputs = {1, 2},
                    .types = {{kFloats | types(DataType::I8, DataType::U8)}},
                    .attributes = {{"kernel_shape", AttributeKind::Ints, true},
                                   {"ceil_mode", AttributeKind::Int},
                                   {"storage_order", AttributeKind::Int}},
                    .infer = infer_pool,
                    .lower = lower_pool};
    add_window_attributes(max);
    OperatorDef average{.name = "AveragePool",
                        .types = {{kFloats}},
                        .attributes = {{"kernel_shape", AttributeKind::Ints, true},
                                       {"ceil_mode", AttributeKind::Int},
                                       {"count_include_pad", AttributeKind::Int}},
                        .infer = infer_pool,
                        .lower = lower_pool};
    add_window_attributes(average);
    all.push_back(std::move(max));
    all.push_back(std::move(average));
    for (auto name : {"GlobalAveragePool", "GlobalMaxPool"})
        all.push_back({.name = name, .types = {{kFloats}}, .infer = infer_global_pool, .lower = lower_global_pool});
}

}  // namespace refactor::onnx
