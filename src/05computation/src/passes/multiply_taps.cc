#include "passes/multiply_taps.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/vision.h"
#include "passes/expression.h"
#include "passes/insert_step.h"

#include <algorithm>

namespace refactor::computation {

namespace {

/// Time to add a column's element to its place, in multiply-adds of one lane of sixteen: a quarter of a ns from caches.
constexpr double kAdded = 12;
/// Columns that memory holds take four times as long, or more.
constexpr double kMostBytes = 8 << 20;

struct Sizes {
    int64_t inputs = 0, outputs = 0, taps = 1, phases = 1;
    int64_t taps_of_phases = 1;  ///< of all phases, which have equally many
    kernel::Col2ImInfo columns;
    DimExpr positions{1};
};

std::optional<Sizes> sizes_of(NodePtr node, kernel::Window const& window) {
    auto const &x = node->input(0)->value.shape, &w = node->input(1)->value.shape, &y = node->output()->value.shape;
    Sizes s;
    auto inputs = w[0].constant(), outputs = w[1].constant();
    if (!inputs || !outputs) return std::nullopt;
    s.inputs = *inputs, s.outputs = *outputs, s.columns.window = window;
    for (size_t i = 0; i + 2 < w.size(); ++i) {
        auto kernel = w[i + 2].constant();
        auto stride = window.strides[i], before = window.pads_begin[i];
        if (!kernel || *kernel < 1 || before < 0) return std::nullopt;
        // Windows at as many places as X has positions.
        auto after = ((x[i + 2] - 1) * stride + (*kernel - 1) * window.dilations[i] + 1 - before - y[i + 2]).constant();
        if (!after) return std::nullopt;
        s.columns.window.pads_end[i] = *after;
        s.columns.kernel.push_back(*kernel);
        s.taps *= *kernel, s.phases *= stride, s.taps_of_phases *= (*kernel + stride - 1) / stride * stride;
        s.positions = s.positions * x[i + 2];
    }
    return s;
}

/// Multiply-adds of blocks of channels, phase by phase or as `merge_phases` makes them, for each of the convolution.
double work_of_blocks(Sizes const& s, int64_t block) {
    auto filled = [&](int64_t channels) { return static_cast<double>((channels + block - 1) / block * block); };
    auto const& dilations = s.columns.window.dilations;
    bool dense = std::all_of(dilations.begin(), dilations.end(), [](int64_t d) { return d == 1; });
    auto taps = static_cast<double>(s.taps), of_phase = static_cast<double>(s.taps_of_phases / s.phases);
    auto one_by_one = filled(s.outputs) * taps, lanes = filled(s.outputs * s.phases);
    auto together = s.outputs * s.phases;
    bool merged = dense && s.phases > 1 && 2 * lanes * of_phase <= one_by_one;
    if (merged && together <= block / 2) lanes = static_cast<double>(together);
    return (merged ? lanes * of_phase : one_by_one) / (static_cast<double>(s.outputs) * taps);
}

/// Whether what the product saves repays its columns.
bool is_worthwhile(Sizes const& s, DimExpr const& batch, int64_t block) {
    auto places = (batch * s.positions).constant().value_or(1);
    if (static_cast<double>(s.outputs * s.taps) * static_cast<double>(places) * sizeof(float) > kMostBytes)
        return false;
    return static_cast<double>(s.inputs) * (work_of_blocks(s, block) - 1) > kAdded;
}

bool multiply(Graph& graph, NodePtr node, int64_t block) {
    auto const* info = info_of<kernel::ConvTransposeInfo>(*node->value.op);
    if (!info || info->group != 1 || info->channels_last || info->epilogue.residual ||
        !node->value.op->params().empty() || info->epilogue.activation.kind != kernel::ActivationKind::None)
        return false;
    auto *x = node->input(0), *w = node->input(1), *y = node->output();
    if (x->value.dtype != DataType::F32 || w->value.dtype != DataType::F32 || !w->value.constant) return false;
    auto s = sizes_of(node, info->window);
    auto const& batch = x->value.shape[0];
    if (!s || s->positions == DimExpr(1) || !is_worthwhile(*s, batch, block)) return false;
    auto rows = s->outputs * s->taps;
    auto* kernel = insert_step(graph, w, "columns", std::make_shared<Reshape>(), {w}, {s->inputs, rows});
    kernel =
        insert_step(graph, kernel, "turned", make_operator(kernel::TransposeInfo{{1, 0}}), {kernel}, {rows, s->inputs});
    auto* line = insert_step(graph, x, "positions", std::make_shared<Reshape>(), {x}, {batch, s->inputs, s->positions});
    auto* columns = insert_step(graph, y, "columns", make_operator(kernel::MatMulInfo{}), {kernel, line},
                                {batch, rows, s->positions});
    auto* sum = insert_step(graph, y, "sums", make_operator(s->columns), {columns}, y->value.shape);
    if (info->epilogue.bias) {
        Shape channels(y->value.shape.size() - 1, DimExpr(1));
        channels[0] = DimExpr(s->outputs);
        auto* given = node->input(2);
        auto* bias = insert_step(graph, given, "channels", std::make_shared<Reshape>(), {given}, channels);
        auto add = make_expression(kernel::ExprOp::Add, DataType::F32, {sum, bias});
        sum = insert_step(graph, y, "biased", make_operator(kernel::ElementwiseInfo{add.code, add.outputs}), add.inputs,
                          y->value.shape);
    }
    sum->value = y->value;
    graph.replace_all_uses(y, sum);
    graph.erase_unused(node);
    return true;
}

}  // namespace

int multiply_taps(Model& model, PassContext const& context) {
    if (context.options.device != "cpu" || context.isa < Isa::Avx2) return 0;
    int changes = 0;
    for (auto* node : model.graph.topological())
        changes += multiply(model.graph, node, context.isa >= Isa::Avx512 ? 16 : 8);
    return changes;
}

}  // namespace refactor::computation
