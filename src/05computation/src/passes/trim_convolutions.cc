#include "passes/trim_convolutions.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "passes/edges.h"

namespace refactor::computation {

namespace {

/// Positions that are cut off, of each spatial axis.
struct Cut {
    Dims begins, ends;
};

/// What a Slice cuts off the spatial axes of an image; nothing if it is another kind of Slice.
std::optional<Cut> cut_of(NodePtr node) {
    auto const* slice = info_of<kernel::SliceInfo>(*node->value.op);
    if (!slice) return std::nullopt;
    auto const &from = node->input(0)->value.shape, &to = node->output()->value.shape;
    Cut cut;
    for (size_t i = 0; i < from.size(); ++i) {
        auto const& start = node->value.op->params()[i];
        auto begin = start.constant(), end = (from[i] - to[i] - start).constant();
        if (slice->steps[i] != 1 || !begin || !end || *begin < 0 || *end < 0) return std::nullopt;
        if (i < 2 && (*begin || *end)) return std::nullopt;
        if (i >= 2) cut.begins.push_back(*begin), cut.ends.push_back(*end);
    }
    return cut;
}

/// `pads` less what stands for `cut` positions of the result; whether there is so much.
bool shrink(Dims& pads, Dims const& cut, Dims const& strides) {
    for (size_t i = 0; i < pads.size(); ++i)
        if ((pads[i] -= cut[i] * strides[i]) < 0) return false;
    return true;
}

std::shared_ptr<Operator const> trimmed(Operator const& op, Cut const& cut) {
    if (!op.params().empty()) return nullptr;
    if (auto const* conv = info_of<kernel::ConvInfo>(op)) {
        auto less = *conv;
        auto& window = less.window;
        bool fits = !conv->channels_last && shrink(window.pads_begin, cut.begins, window.strides) &&
                    shrink(window.pads_end, cut.ends, window.strides);
        return fits ? make_operator(less) : nullptr;
    }
    auto const* conv = info_of<kernel::ConvTransposeInfo>(op);
    if (!conv || conv->channels_last) return nullptr;
    auto less = *conv;
    for (size_t i = 0; i < cut.begins.size(); ++i)
        less.window.pads_begin[i] += cut.begins[i], less.window.pads_end[i] += cut.ends[i];
    return make_operator(less);
}

bool trim(Graph& graph, NodePtr slice) {
    auto cut = cut_of(slice);
    auto* image = cut ? slice->input(0) : nullptr;
    auto* conv = image ? image->producer() : nullptr;
    if (!conv || image->value.keep || !is_private(image)) return false;
    auto op = trimmed(*conv->value.op, *cut);
    if (!op) return false;
    std::vector<EdgePtr> const inputs(conv->inputs().begin(), conv->inputs().end()), outputs{slice->output()};
    graph.insert_producing({conv->value.name, std::move(op)}, inputs, outputs);
    graph.erase_unused(slice);
    return true;
}

}  // namespace

int trim_convolutions(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological())
        if (node->alive()) changes += trim(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
