#include "passes/select_layouts.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "passes/estimates.h"
#include "passes/minimum_cut.h"

#include <algorithm>
#include <unordered_map>

namespace refactor::computation {

namespace {

using kernel::Layout;

/// What one node can do with blocked operands.
struct Ability {
    bool blocked = false;              ///< may be labelled blocked at all
    bool convolution = false;          ///< reorders inside if it is not
    bool parts_of_blocks = false;      ///< copies where row-major parts would be runs of bytes
    bool plain_output = false;         ///< writes row-major whatever it reads
    bool needs_blocks = false;         ///< reorders, or is slow, if what it reads is row-major
    SmallVector<uint8_t, 16> follows;  ///< by input: 1 if it has the node's layout, 0 if it stays row-major
};

bool has_channels(EdgePtr edge) {
    return edge && edge->value.shape.size() >= 3 && edge->value.shape.size() <= 5 && edge->value.dtype == DataType::F32;
}

bool is_scalar(EdgePtr edge) {
    for (auto const& size : edge->value.shape)
        if (!(size == DimExpr(1))) return false;
    return true;
}

/// One value per channel, [C, 1…] or [1, C, 1…], for an output with `rank` axes and C channels.
bool is_per_channel(EdgePtr edge, size_t rank, DimExpr const& channels) {
    auto const& shape = edge->value.shape;
    if (shape.size() > rank || shape.size() + 1 < rank) return false;
    for (size_t i = 0; i < shape.size(); ++i)
        if (!(shape[i] == (i + rank - shape.size() == 1 ? channels : DimExpr(1)))) return false;
    return true;
}

/// One value for all channels, [1 or N, 1, spatial…] or fewer axes, for an output of `shape`.
bool is_of_one_channel(EdgePtr edge, Shape const& shape) {
    auto const& own = edge->value.shape;
    if (own.size() > shape.size()) return false;
    auto lead = shape.size() - own.size();
    for (size_t i = 0; i < own.size(); ++i)
        if (!(own[i] == DimExpr(1)) && (i + lead == 1 || !(own[i] == shape[i + lead]))) return false;
    return true;
}

Ability elementwise_ability(NodePtr node) {
    Ability ability;
    auto const& shape = node->output()->value.shape;
    for (auto* output : node->outputs())
        if (!has_channels(output)) return {};
    for (auto* input : node->inputs()) {
        if (is_scalar(input) || is_per_channel(input, shape.size(), shape[1])) {
            ability.follows.push_back(0);
        } else if (has_channels(input) && !input->is_source() && input->value.shape.size() == shape.size() &&
                   input->value.shape[1] == shape[1]) {
            ability.follows.push_back(1);
        } else if (is_of_one_channel(input, shape)) {
            ability.follows.push_back(0);
        } else {
            return {};
        }
    }
    ability.blocked = true;
    return ability;
}

Ability concat_ability(NodePtr node) {
    Ability ability;
    auto const* info = info_of<kernel::ConcatInfo>(*node->value.op);
    ability.blocked = info->axis == 1 && has_channels(node->output()), ability.needs_blocks = true;
    for (auto* input : node->inputs()) {
        ability.blocked &= has_channels(input) && !input->is_source();
        ability.follows.push_back(1);
    }
    return ability;
}

/// Cuts along the channels; where these are not whole blocks, they are copied lane by lane.
Ability split_ability(NodePtr node, int64_t block) {
    Ability ability;
    ability.blocked = info_of<kernel::SplitInfo>(*node->value.op)->axis == 1 && has_channels(node->input(0)) &&
                      !node->input(0)->is_source();
    ability.follows.push_back(1);
    for (auto* output : node->outputs()) {
        ability.blocked &= has_channels(output);
        if (!ability.blocked) return {};
        auto channels = output->value.shape[1].constant();
        ability.blocked &= channels.has_value();
        ability.parts_of_blocks |= channels && *channels % block;
    }
    return ability;
}

/// Cuts whole blocks of channels or all of them, and anything of other axes; or channels alone, lane by lane.
Ability slice_ability(NodePtr node, int64_t block) {
    auto const& op = *node->value.op;
    auto const* info = info_of<kernel::SliceInfo>(op);
    if (!has_channels(node->input(0)) || node->input(0)->is_source() || info->steps[1] != 1) return {};
    auto const &x = node->input(0)->value.shape, &y = node->output()->value.shape;
    Ability ability;
    ability.blocked = true;
    ability.follows.push_back(1);
    if (x[1] == y[1]) return ability;
    auto first = op.params()[1].constant(), count = y[1].constant(), all = x[1].constant();
    if (!first || !count || !all) return {};
    ability.parts_of_blocks = *first % block || (*count % block && *first + *count != *all);
    for (size_t axis = 0; ability.parts_of_blocks && axis < x.size(); ++axis)
        if (axis != 1 && (!(x[axis] == y[axis]) || info->steps[axis] != 1)) return {};
    return ability;
}

/// Over the channels alone; lanes behind the last are zeros, which extremes and products must not see.
Ability reduce_ability(NodePtr node, int64_t block) {
    using enum kernel::ReduceKind;
    auto const* info = info_of<kernel::ReduceInfo>(*node->value.op);
    auto* x = node->input(0);
    if (info->axes != Dims{1} || info->kind == LogSumExp || !node->value.op->params().empty() || !has_channels(x) ||
        x->is_source())
        return {};
    auto channels = x->value.shape[1].constant();
    bool whole = info->kind != Max && info->kind != Min && info->kind != Prod;
    if (!channels || *channels == 0 || (*channels % block && !whole)) return {};
    Ability ability;
    ability.blocked = ability.plain_output = true;
    ability.follows.push_back(1);
    return ability;
}

/// Groups of so few channels in all (filters of images and sounds) that lanes of a block would be empty: lanes are
/// columns of row-major tensors. Short rows repay that only where most lanes would be.
bool has_few_channels_in_groups(NodePtr node, kernel::ConvInfo const& conv, int64_t block) {
    constexpr int64_t kFew = 4, kLongRow = 256;
    auto const &x = node->input(0)->value.shape, &y = node->output()->value.shape;
    auto in = x[1].constant(), out = y[1].constant();
    if (conv.group <= 1 || conv.epilogue.residual || !in || !out || *out / conv.group > block / 2) return false;
    return std::max(*in, *out) < block && (*out <= kFew || y.back().constant().value_or(0) >= kLongRow);
}

/// A convolution of which every output reads one position, as those of row-major matrices.
bool is_pointwise(NodePtr node) {
    auto const* conv = info_of<kernel::ConvInfo>(*node->value.op);
    if (!conv || !node->value.op->params().empty()) return false;
    auto const &w = node->input(1)->value.shape, &x = node->input(0)->value.shape, &y = node->output()->value.shape;
    for (size_t axis = 2; axis < w.size(); ++axis)
        if (!(w[axis] == DimExpr(1)) || !(x[axis] == y[axis])) return false;
    return true;
}

Ability ability_of(NodePtr node, int64_t block) {
    auto const& op = *node->value.op;
    auto window = [&](bool convolution) {
        Ability ability;
        ability.blocked = has_channels(node->input(0)) && has_channels(node->output());
        ability.convolution = convolution, ability.needs_blocks = true;
        for (size_t i = 0; i < node->inputs().size(); ++i) ability.follows.push_back(i == 0);
        return ability;
    };
    if (auto const* conv = info_of<kernel::ConvInfo>(op)) {
        auto ability = window(true);
        if (conv->epilogue.residual) ability.follows.back() = 1;
        auto channels = node->input(0)->value.shape[1].constant();
        if (conv->group == 1 && channels && *channels < block) ability.follows[0] = 0;
        if (has_few_channels_in_groups(node, *conv, block)) ability.follows[0] = 0, ability.plain_output = true;
        return ability;
    }
    if (auto const* conv = info_of<kernel::ConvTransposeInfo>(op)) {
        auto ability = window(true);
        if (conv->epilogue.residual) ability.follows.back() = 1;
        return ability;
    }
    if (info_of<kernel::PoolInfo>(op)) return node->outputs().size() > 1 ? Ability{} : window(false);
    if (info_of<kernel::GlobalPoolInfo>(op) || info_of<kernel::GroupNormInfo>(op)) return window(false);
    if (info_of<kernel::PadInfo>(op)) {
        auto ability = window(false);
        for (size_t axis : {0u, 1u})
            ability.blocked = ability.blocked && op.params()[axis] == DimExpr(0) &&
                              node->input(0)->value.shape[axis] == node->output()->value.shape[axis];
        return ability;
    }
    if (info_of<kernel::ElementwiseInfo>(op)) return elementwise_ability(node);
    if (info_of<kernel::ReduceInfo>(op)) return reduce_ability(node, block);
    if (info_of<kernel::ConcatInfo>(op)) return concat_ability(node);
    if (info_of<kernel::SplitInfo>(op)) return split_ability(node, block);
    if (info_of<kernel::SliceInfo>(op)) return slice_ability(node, block);
    if (info_of<kernel::ResizeInfo>(op)) {
        auto ability = window(false);
        auto const &in = node->input(0)->value.shape, &out = node->output()->value.shape;
        ability.blocked &= in[0] == out[0] && in[1] == out[1];
        return ability;
    }
    return {};
}

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
        auto ability = ability_of(consumer, block);
        if (ability.needs_blocks && ability.follows[slot]) return saving > kReorderedPosition;
    }
    return saving > 0;
}

class Selection {
    Model& model_;
    PassContext const& context_;
    AssumedSizes sizes_;
    Layout layout_;
    std::unordered_map<NodePtr, Ability> abilities_;
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
    double row_major_price(NodePtr node, Ability const& ability, double most) const {
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

    /// Row-major convolutions reorder what they read and write themselves, unless there are few outputs or each reads
    /// one position; a little more breaks ties.
    void add_convolution(NodePtr node, uint32_t vertex, Ability const& ability) {
        auto of_x = ability.follows[0] ? sizes_.bytes_of(node->input(0)) : 0;
        auto of_y = ability.plain_output ? 0 : sizes_.bytes_of(node->output());
        auto price = of_x + of_y;
        if (ability.follows[0] && (ability.plain_output || is_pointwise(node)))
            price = row_major_price(node, ability, price);
        if (ability.plain_output) price = std::max(price, 0.);
        if (price >= 0) return cut_.add_arc(MinimumCut::kSource, vertex, price * 1.25);
        cut_.add_arc(vertex, MinimumCut::kSink, -price);
    }

    void add_node(NodePtr node) {
        auto block = kernel::block_of(layout_);
        auto ability = ability_of(node, block);
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
