#include "passes/view_operands.h"

#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "passes/edges.h"

#include <algorithm>
#include <array>
#include <optional>

namespace refactor::computation {

namespace {

constexpr size_t kRank = 4;  // of operands

/// One axis of an operand, as a part of an axis of a tensor.
struct Piece {
    size_t axis;
    DimExpr size;
};

/// An axis of a tensor: the pieces, outermost first, that begin at `first`.
struct Axis {
    DimExpr size, first;
    std::vector<Piece> pieces;

    bool is_full() const {
        DimExpr all(1);
        for (auto const& piece : pieces) all = all * piece.size;
        return first == DimExpr(0) && all == size;
    }
};

/// An operand as a part of a tensor.
struct View {
    EdgePtr edge;
    std::vector<Axis> axes;

    static View whole(EdgePtr edge) {
        View view{edge, {}};
        for (auto const& size : edge->value.shape) view.axes.push_back({size, 0, {{view.axes.size(), size}}});
        return view;
    }
};

/// Axes [i, i + m) hold as many elements as sizes [j, j + n), for the smallest such m and n.
std::optional<std::pair<size_t, size_t>> match_axes(std::vector<Axis> const& axes, size_t i, Shape const& sizes,
                                                    size_t j) {
    for (size_t total = 2; total <= axes.size() - i + sizes.size() - j; ++total)
        for (size_t m = 1; m < total; ++m) {
            auto n = total - m;
            if (m > axes.size() - i || n > sizes.size() - j) continue;
            DimExpr before(1), after(1);
            for (size_t k = 0; k < m; ++k) after = after * axes[i + k].size;
            for (size_t k = 0; k < n; ++k) before = before * sizes[j + k];
            if (before == after) return std::pair{m, n};
        }
    return std::nullopt;
}

/// Distributes pieces over `sizes`, in order.
bool distribute(std::vector<Piece> const& pieces, std::span<DimExpr const> sizes, std::vector<Axis>& target) {
    auto next = pieces.begin();
    for (auto const& size : sizes) {
        Axis axis{size, 0, {}};
        for (DimExpr all(1); all != size; all = all * axis.pieces.back().size) {
            if (next == pieces.end()) return false;
            axis.pieces.push_back(*next++);
        }
        target.push_back(std::move(axis));
    }
    for (; next != pieces.end(); ++next) {
        if (next->size != DimExpr(1)) return false;
        target.back().pieces.push_back(*next);
    }
    return true;
}

/// The same elements under the shape `sizes` that was there before a Reshape; nothing if an axis would have to be cut.
std::optional<std::vector<Axis>> regroup(std::vector<Axis> const& axes, Shape const& sizes) {
    std::vector<Axis> result;
    size_t i = 0, j = 0;
    while (i < axes.size() && j < sizes.size()) {
        auto group = match_axes(axes, i, sizes, j);
        if (!group) return std::nullopt;
        auto [m, n] = *group;
        if (m == 1 && n == 1) {
            result.push_back(axes[i]);
        } else {
            std::vector<Piece> pieces;
            for (size_t k = i; k < i + m; ++k) {
                if (!axes[k].is_full()) return std::nullopt;
                pieces.insert(pieces.end(), axes[k].pieces.begin(), axes[k].pieces.end());
            }
            if (!distribute(pieces, {sizes.data() + j, n}, result)) return std::nullopt;
        }
        i += m, j += n;
    }
    for (; j < sizes.size(); ++j) result.push_back({sizes[j], 0, {}});
    for (; i < axes.size(); ++i) {
        if (result.empty() || !axes[i].is_full()) return std::nullopt;
        result.back().pieces.insert(result.back().pieces.end(), axes[i].pieces.begin(), axes[i].pieces.end());
    }
    return result;
}

/// The same elements in what the producer of the view's tensor reads; nothing if that does more than move elements.
std::optional<View> before_producer(View const& view) {
    auto* node = view.edge->producer();
    if (!node || node->inputs().empty()) return std::nullopt;
    View before{node->input(0), view.axes};
    auto const& sizes = before.edge->value.shape;
    auto const& op = *node->value.op;
    if (op.is_alias()) {
        auto axes = regroup(view.axes, sizes);
        if (!axes) return std::nullopt;
        before.axes = std::move(*axes);
    } else if (auto const* transpose = info_of<kernel::TransposeInfo>(op)) {
        for (size_t i = 0; i < view.axes.size(); ++i)
            before.axes[static_cast<size_t>(transpose->perm[i])] = view.axes[i];
    } else if (auto const* slice = info_of<kernel::SliceInfo>(op)) {
        if (std::any_of(slice->steps.begin(), slice->steps.end(), [](int64_t step) { return step != 1; }))
            return std::nullopt;
        for (size_t i = 0; i < before.axes.size(); ++i)
            before.axes[i].first = before.axes[i].first + op.params()[i], before.axes[i].size = sizes[i];
    } else if (auto const* split = info_of<kernel::SplitInfo>(op)) {
        auto& axis = before.axes[static_cast<size_t>(split->axis)];
        for (size_t i = 0; i < view.edge->slot(); ++i)
            axis.first = axis.first + node->output(i)->value.shape[static_cast<size_t>(split->axis)];
        axis.size = sizes[static_cast<size_t>(split->axis)];
    } else {
        return std::nullopt;
    }
    return before;
}

/// Where the elements of a view lie: the first one, and the steps along the operand's axes.
struct Steps {
    DimExpr first;
    std::array<DimExpr, kRank> of;
};

Steps steps_of(View const& view) {
    Steps steps;
    DimExpr step(1);
    for (auto axis = view.axes.rbegin(); axis != view.axes.rend(); ++axis) {
        steps.first = steps.first + axis->first * step;
        DimExpr inner = step;
        for (auto piece = axis->pieces.rbegin(); piece != axis->pieces.rend(); ++piece)
            steps.of[piece->axis] = inner, inner = inner * piece->size;
        step = step * axis->size;
    }
    return steps;
}

/// Nothing needs the tensor itself: it has one reader, or all its readers cut a part out of it.
bool may_vanish(EdgePtr edge) {
    auto const consumers = edge->consumers();
    auto cuts = [](auto const& use) { return info_of<kernel::SliceInfo>(*use.node->value.op) != nullptr; };
    return is_private(edge) ||
           (!edge->value.keep && !edge->is_output() && std::all_of(consumers.begin(), consumers.end(), cuts));
}

/// The view furthest up whose elements are contiguous along one of the axes from `inner` to the last.
View furthest(EdgePtr operand, size_t inner) {
    auto best = View::whole(operand);
    for (auto view = std::optional(best); view && may_vanish(view->edge);) {
        view = before_producer(*view);
        if (!view) break;
        auto steps = steps_of(*view);
        if (std::any_of(steps.of.begin() + static_cast<std::ptrdiff_t>(inner), steps.of.end(),
                        [](DimExpr const& step) { return step == DimExpr(1); }))
            best = *view;
    }
    return best;
}

/// The only consumer if it moves heads behind positions.
NodePtr transpose_of_heads(EdgePtr edge) {
    if (!is_private(edge)) return nullptr;
    auto* node = edge->only_consumer();
    auto const* info = info_of<kernel::TransposeInfo>(*node->value.op);
    return info && info->perm == Dims{0, 2, 1, 3} ? node : nullptr;
}

void append(std::vector<DimExpr>& params, DimExpr const& first, DimExpr const& batch, DimExpr const& head,
            DimExpr const& row) {
    for (auto const* value : {&first, &batch, &head, &row}) params.push_back(*value);
}

bool rewrite(Graph& graph, NodePtr node) {
    auto const* old = info_of<kernel::AttentionInfo>(*node->value.op);
    if (!old || old->views) return false;
    auto info = *old;
    auto const &q_shape = node->input(0)->value.shape, &v_shape = node->input(2)->value.shape;
    auto const& k_shape = node->input(1)->value.shape;
    View const views[3]{furthest(node->input(0), 3), furthest(node->input(1), 2), furthest(node->input(2), 3)};
    auto* transpose = transpose_of_heads(node->output());
    std::vector<EdgePtr> inputs(node->inputs().begin(), node->inputs().end());
    bool moved = transpose != nullptr;
    for (size_t i = 0; i < 3; ++i) moved |= views[i].edge != inputs[i], inputs[i] = views[i].edge;
    if (!moved) return false;

    std::vector<DimExpr> params{q_shape[0], q_shape[1], k_shape[1], q_shape[2], v_shape[2], q_shape[3], v_shape[3]};
    for (size_t i = 0; i < 3; ++i) {
        auto steps = steps_of(views[i]);
        bool transposed = i == 1 && steps.of[3] != DimExpr(1);
        append(params, steps.first, steps.of[0], steps.of[1], steps.of[transposed ? 3 : 2]);
        // Elements contiguous along the other axis: rows and columns of K change their parts.
        if (transposed) info.k_transposed = !info.k_transposed;
    }
    auto const &heads = q_shape[1], &queries = q_shape[2], &depth = v_shape[3];
    auto all = heads * queries * depth;
    if (transpose)
        append(params, 0, all, depth, heads * depth);
    else
        append(params, 0, all, queries * depth, depth);

    info.views = true;
    auto* output = transpose ? transpose->output() : node->output();
    auto* view = graph.insert({node->value.name, make_operator(info, std::move(params))}, inputs);
    view->output()->value = output->value;
    graph.replace_all_uses(output, view->output());
    graph.erase_unused(output->producer());
    return true;
}

}  // namespace

int view_operands(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological())
        if (node->alive()) changes += rewrite(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
