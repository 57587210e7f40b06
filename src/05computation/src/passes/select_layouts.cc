#include "passes/select_layouts.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "passes/estimates.h"
#include "passes/layout_ability.h"
#include "passes/minimum_cut.h"

#include <algorithm>
#include <unordered_map>

namespace refactor::computation {

namespace {

using kernel::Layout;

/// What a block costs at each position to be made of row-major channels, in multiply-adds of vectors.
constexpr double kReorderedPosition = 24;

/// A convolution whose few output channels fill a small part of a block, at several positions.
bool writes_few_channels(NodePtr node, kernel::ConvInfo const& conv, int64_t block) {
    auto const& shape = node->output()->value.shape;
    if (std::all_of(shape.begin() + 2, shape.end(), [](auto const& size) { return size == DimExpr(1); })) return false;
    if (conv.group != 1 || conv.epilogue.residual) return false;
    int64_t sizes[2]{}, taps = 1;
    auto const& weights = node->input(1)->value.shape;
    for (size_t axis = 0; axis < weights.size(); ++axis) {
        auto size = weights[axis].constant();
        if (!size) return false;
        if (axis < 2) sizes[axis] = *size;
        if (axis >= 2) taps *= *size;
    }
    auto layout = block == 16 ? Layout::Blocked16 : Layout::Blocked8;
    auto saving = kernel::few_outputs_saving(layout, sizes[1], taps, sizes[0]);
    for (auto [consumer, slot] : node->output()->consumers()) {
        auto ability = layout_ability(consumer, block);
        if (ability.needs_blocks && ability.follows[slot]) return saving > kReorderedPosition;
    }
    return saving > 0;
}

class Selection {
    Model& model_;
    PassContext const& context_;
    AssumedSizes sizes_;
    Layout layout_;
    std::unordered_map<NodePtr, LayoutAbility> abilities_;
    std::unordered_map<NodePtr, uint32_t> vertices_;
    MinimumCut cut_;
    std::vector<bool> side_;

    bool follows(NodePtr node, uint32_t slot) const {
        auto const& ability = abilities_.at(node);
        return slot < ability.follows.size() && ability.follows[slot];
    }

    /// Its layout is that of the node that makes it.
    bool writes_either(EdgePtr edge) const {
        auto* node = edge->producer();
        return node && abilities_.contains(node) && !abilities_.at(node).plain_output;
    }

    /// What a convolution takes longer with row-major tensors, lanes being columns, than with blocks, lanes being
    /// channels, in bytes that are reordered in that time; at most `most`. Y is row-major both times if `plain_output`.
    double row_major_price(NodePtr node, LayoutAbility const& ability, double most) const {
        constexpr double kBytesPerNs = 24;
        std::vector<kernel::Operand> inputs;
        for (auto* input : node->inputs()) inputs.push_back(operand_of(input, sizes_.dims_of(input)));
        auto output = operand_of(node->output(), sizes_.dims_of(node->output()));
        auto time = [&](Layout layout) {
            for (size_t i = 0; i < inputs.size(); ++i)
                if (ability.follows[i]) inputs[i].layout = layout;
            if (!ability.plain_output) output.layout = layout;
            auto found = node->value.op->candidates(
                {inputs, {&output, 1}, "cpu", context_.isa, context_.threads, context_.options.precision});
            return fastest(found, inputs, output, context_.threads);
        };
        auto rows = time(Layout::Plain), blocks = time(layout_);
        return rows && blocks ? std::min((*rows - *blocks) * kBytesPerNs, most) : most;
    }

    /// Whether rows may be better for a convolution of one position: lanes of blocks would be empty, or a neighbour has
    /// rows.
    bool may_take_rows(NodePtr node, kernel::ConvInfo const& conv) const {
        auto block = kernel::block_of(layout_);
        auto const& w = node->input(1)->value.shape;
        auto outputs = w[0].constant(), channels = w[1].constant();
        if (!outputs || !channels || *channels % block || *outputs / conv.group % block) return true;
        auto *x = node->input(0), *y = node->output();
        if (!writes_either(x) || !abilities_.at(x->producer()).blocked || y->is_output()) return true;
        for (auto [consumer, slot] : y->consumers()) {
            auto ability = layout_ability(consumer, block);
            if (!ability.blocked || slot >= ability.follows.size() || !ability.follows[slot]) return true;
        }
        return false;
    }

    /// Row-major convolutions reorder what they read and write themselves, unless there are few outputs or each reads
    /// one position; a little more breaks ties.
    void add_convolution(NodePtr node, uint32_t vertex, LayoutAbility const& ability) {
        auto of_x = ability.follows[0] ? sizes_.bytes_of(node->input(0)) : 0;
        auto of_y = ability.plain_output ? 0 : sizes_.bytes_of(node->output());
        auto price = of_x + of_y;
        auto const* conv = info_of<kernel::ConvInfo>(*node->value.op);
        if (ability.follows[0] && (ability.plain_output || (is_pointwise(node) && may_take_rows(node, *conv))))
            price = row_major_price(node, ability, price);
        if (ability.plain_output) price = std::max(price, 0.);
        if (price >= 0) return cut_.add_arc(MinimumCut::kSource, vertex, price * 1.25);
        cut_.add_arc(vertex, MinimumCut::kSink, -price);
    }

    void add_node(NodePtr node) {
        auto block = kernel::block_of(layout_);
        auto ability = layout_ability(node, block);
        if (auto const* conv = info_of<kernel::ConvInfo>(*node->value.op))
            ability.plain_output = ability.plain_output || writes_few_channels(node, *conv, block);
        for (auto* output : node->outputs()) ability.blocked &= ability.plain_output || !output->value.keep;
        auto vertex = vertices_[node] = cut_.add_vertex();
        if (!ability.blocked) {
            cut_.add_arc(vertex, MinimumCut::kSink, MinimumCut::kUncuttable);
        } else if (ability.convolution) {
            add_convolution(node, vertex, ability);
        } else if (ability.parts_of_blocks) {
            double copied = 0;
            for (auto* output : node->outputs()) copied += sizes_.bytes_of(output);
            cut_.add_arc(vertex, MinimumCut::kSink, copied);
        }
        abilities_.emplace(node, std::move(ability));
    }

    void add_tensor(EdgePtr edge) {
        auto price = sizes_.bytes_of(edge);
        auto producer = writes_either(edge) ? vertices_.at(edge->producer()) : MinimumCut::kSink;
        auto all_blocked = cut_.add_vertex(), any_blocked = cut_.add_vertex();
        cut_.add_arc(producer, all_blocked, price);
        cut_.add_arc(any_blocked, producer, price);
        for (auto [node, slot] : edge->consumers()) {
            auto consumer = follows(node, slot) ? vertices_.at(node) : MinimumCut::kSink;
            cut_.add_arc(all_blocked, consumer, MinimumCut::kUncuttable);
            cut_.add_arc(consumer, any_blocked, MinimumCut::kUncuttable);
        }
        if (edge->is_output()) cut_.add_arc(all_blocked, MinimumCut::kSink, MinimumCut::kUncuttable);
    }

    bool is_blocked(NodePtr node) const { return side_[vertices_.at(node)]; }

    /// Puts one Reorder behind `edge` for all consumers (and the graph output) whose layout differs.
    int reorder(EdgePtr edge) {
        bool blocked = writes_either(edge) && is_blocked(edge->producer());
        if (blocked) edge->value.layout = layout_;
        EdgePtr copy = nullptr;
        auto other = [&] {
            if (copy) return copy;
            kernel::ReorderInfo info;
            auto* node = model_.graph.insert({"reorder of " + edge->value.name, make_operator(info)}, {edge});
            copy = node->output();
            copy->value = edge->value;
            copy->value.layout = blocked ? Layout::Plain : layout_;
            copy->value.name += blocked ? ".plain" : ".blocked";
            return copy;
        };
        for (auto [node, slot] : edge->consumers())
            if ((follows(node, slot) && is_blocked(node)) != blocked) model_.graph.set_input(node, slot, other());
        for (size_t i = 0; blocked && i < model_.graph.outputs().size(); ++i)
            if (model_.graph.outputs()[i] == edge) model_.graph.set_output(i, other());
        return copy != nullptr;
    }

public:
    Selection(Model& model, PassContext const& context)
        : model_(model),
          context_(context),
          sizes_(model),
          layout_(context.isa >= Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8) {}

    int run() {
        auto nodes = model_.graph.topological();
        std::vector<EdgePtr> edges = model_.graph.inputs();
        for (auto* node : nodes) {
            add_node(node);
            for (auto* edge : node->outputs()) edges.push_back(edge);
        }
        for (auto* edge : edges) add_tensor(edge);
        side_ = cut_.solve();
        int reorders = 0;
        for (auto* edge : edges) reorders += reorder(edge);
        int blocked = 0;
        for (auto* node : nodes.all()) blocked += is_blocked(node);
        return reorders + blocked;
    }
};

}  // namespace

int select_layouts(Model& model, PassContext const& context) {
    if (context.options.device != "cpu" || context.isa < Isa::Avx2) return 0;
    return Selection(model, context).run();
}

}  // namespace refactor::computation
