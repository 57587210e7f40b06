#include "passes/multiply_windows.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "passes/insert_step.h"

#include <algorithm>

namespace refactor::computation {

namespace {

bool all_are(Dims const& values, int64_t wanted) {
    return std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == wanted; });
}

/// How windows lie in X.
enum class Windows { Overlapping, Whole, SideBySide, Points };

Windows windows_of(kernel::ConvInfo const& info, NodePtr node) {
    auto const& window = info.window;
    auto const &x = node->input(0)->value.shape, &w = node->input(1)->value.shape;
    if (info.group != 1 || !node->value.op->params().empty() || !all_are(window.pads_begin, 0) ||
        !all_are(window.pads_end, 0) || !all_are(window.dilations, 1))
        return Windows::Overlapping;
    bool whole = true, side_by_side = info.channels_last;
    bool points = info.channels_last && all_are(window.strides, 1);
    size_t const first = info.channels_last ? 1 : 2;
    for (size_t axis = 0; axis < window.strides.size(); ++axis) {
        auto taps = w[first + axis].constant(), size = x[first + axis].constant();
        if (!taps) return Windows::Overlapping;
        whole &= size == taps;
        side_by_side &= *taps == window.strides[axis] && size && *size % *taps == 0;
        points &= *taps == 1;
    }
    return whole          ? Windows::Whole
           : points       ? Windows::Points
           : side_by_side ? Windows::SideBySide
                          : Windows::Overlapping;
}

class Multiplying {
    Graph& graph_;
    NodePtr node_;
    kernel::ConvInfo const& info_;

    EdgePtr reshape(EdgePtr from, std::string_view what, Shape shape) {
        if (from->value.shape == shape) return from;
        return insert_step(graph_, from, what, std::make_shared<Reshape>(), {from}, std::move(shape));
    }
    DimExpr inner() const {
        DimExpr inner(1);
        auto const& w = node_->input(1)->value.shape;
        for (size_t axis = 1; axis < w.size(); ++axis) inner = inner * w[axis];
        return inner;
    }
    /// X [N, spatial…, C] as [N, windows…, taps…, C], by one Transpose even if that brought the channels behind.
    EdgePtr gathered() {
        auto* x = node_->input(0);
        auto const &taps = node_->input(1)->value.shape, &y = node_->output()->value.shape;
        auto axes = taps.size() - 2;
        bool first = is_turned(x);
        if (first) x = x->producer()->input(0);
        Shape cut{x->value.shape[0]}, turned{x->value.shape[0]};
        Dims perm{0};
        if (first) cut.push_back(taps.back());
        auto const start = cut.size();
        for (size_t axis = 1; axis <= axes; ++axis) cut.push_back(y[axis]), cut.push_back(taps[axis]);
        if (!first) cut.push_back(taps.back());
        for (size_t part = 0; part < 2; ++part)
            for (size_t axis = 0; axis < axes; ++axis) perm.push_back(static_cast<int64_t>(start + 2 * axis + part));
        perm.push_back(first ? 1 : static_cast<int64_t>(cut.size() - 1));
        for (size_t axis = 1; axis < perm.size(); ++axis) turned.push_back(cut[static_cast<size_t>(perm[axis])]);
        x = reshape(x, "cut", cut);
        return insert_step(graph_, x, "windows", make_operator(kernel::TransposeInfo{perm}), {x}, turned);
    }
    /// Whether a Transpose brings the channels of `x` behind the spatial axes.
    static bool is_turned(EdgePtr x) {
        auto const* node = x->producer();
        auto const* info = node ? info_of<kernel::TransposeInfo>(*node->value.op) : nullptr;
        if (!info) return false;
        auto last = static_cast<int64_t>(info->perm.size()) - 1;
        for (int64_t axis = 0; axis <= last; ++axis)
            if (info->perm[static_cast<size_t>(axis)] != (axis == 0 ? 0 : axis == last ? 1 : axis + 1)) return false;
        return true;
    }

public:
    Multiplying(Graph& graph, NodePtr node, kernel::ConvInfo const& info) : graph_(graph), node_(node), info_(info) {}

    void run(Windows windows) {
        auto* y = node_->output();
        std::vector<EdgePtr> inputs(node_->inputs().begin(), node_->inputs().end());
        auto const outputs = node_->input(1)->value.shape[0];
        // One matrix, so that products of few rows are known as such. Without the channels last it has one position.
        auto rows = y->value.shape[0];
        for (size_t axis = 1; info_.channels_last && axis + 1 < y->value.shape.size(); ++axis)
            rows = rows * y->value.shape[axis];
        inputs[0] = reshape(windows == Windows::SideBySide ? gathered() : inputs[0], "rows", {rows, inner()});
        inputs[1] = reshape(inputs[1], "columns", {outputs, inner()});
        if (info_.epilogue.residual) inputs.back() = reshape(inputs.back(), "rows", {rows, outputs});
        kernel::MatMulInfo product;
        product.trans_b = true, product.epilogue = info_.epilogue;
        auto* made = graph_.insert({node_->value.name, make_operator(product)}, inputs);
        auto& value = made->output()->value = y->value;
        value.name += ".rows", value.keep = false, value.shape = {rows, outputs};
        auto* last = graph_.insert({node_->value.name + ".reshape", std::make_shared<Reshape>()}, {made->output()});
        last->output()->value = y->value;
        graph_.replace_all_uses(y, last->output());
        graph_.erase_unused(node_);
    }
};

/// Whether a window has several elements: convolutions of a CPU read such weights slower than products do.
bool has_several_taps(NodePtr node) {
    auto const& w = node->input(1)->value.shape;
    return std::any_of(w.begin() + 2, w.end(), [](DimExpr const& size) { return size != DimExpr(1); });
}

bool multiply(Graph& graph, NodePtr node, bool on_cpu) {
    auto const* found = info_of<kernel::ConvInfo>(*node->value.op);
    if (!found) return false;
    auto const info = *found;
    auto windows = windows_of(info, node);
    if (windows == Windows::Overlapping ||
        (windows == Windows::Points && !kernel::is_slow_in_cudnn(info.epilogue.activation)))
        return false;
    if (on_cpu && (windows != Windows::Whole || info.channels_last || !has_several_taps(node))) return false;
    Multiplying(graph, node, info).run(windows);
    return true;
}

}  // namespace

int multiply_windows(Model& model, PassContext const& context) {
    int changes = 0;
    for (auto* node : model.graph.topological())
        changes += multiply(model.graph, node, context.options.device == "cpu");
    return changes;
}

}  // namespace refactor::computation
