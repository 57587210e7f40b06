#include "passes/merge_branches.h"

#include "kernel/ops/conv.h"
#include "made_constants.h"
#include "passes/affine.h"
#include "passes/constants.h"
#include "passes/expression.h"

#include <cstring>

namespace refactor::computation {

namespace {

/// What is convolved: weights [M, C/group, kernel…] and a bias [M].
struct Branch {
    EdgePtr x;
    kernel::Window window;
    int64_t group, channels;
    Dims weight_dims;
    EdgePtr w = nullptr, b = nullptr;  ///< of a convolution; null: no bias
    std::optional<Affine> diagonal;    ///< else: one tap of the channel's own number

    /// Where tap `i` of an axis lies, from the position of an output at stride 1.
    int64_t offset(size_t axis, int64_t i) const { return i * window.dilations[axis] - window.pads_begin[axis]; }
    size_t axes() const { return window.strides.size(); }
    int64_t taps() const {
        int64_t count = 1;
        for (size_t axis = 0; axis < axes(); ++axis) count *= weight_dims[axis + 2];
        return count;
    }
};

/// The two operands of a plain sum of f32 of equal shapes.
std::optional<std::pair<EdgePtr, EdgePtr>> operands_of_sum(NodePtr node) {
    if (!info_of<kernel::ElementwiseInfo>(*node->value.op) || node->inputs().size() != 2) return std::nullopt;
    auto *a = node->input(0), *b = node->input(1), *y = node->output();
    if (y->value.dtype != DataType::F32 || a->value.shape != y->value.shape || b->value.shape != y->value.shape)
        return std::nullopt;
    auto expression = Expression::of(node);
    bool sum = expression.outputs.size() == 1 && expression.code.size() == 3 &&
               expression.code[expression.outputs[0]].op == kernel::ExprOp::Add;
    if (!sum) return std::nullopt;
    return std::pair{a, b};
}

std::optional<Branch> convolution(NodePtr node) {
    auto const* info = info_of<kernel::ConvInfo>(*node->value.op);
    if (!info || info->channels_last || !node->value.op->params().empty()) return std::nullopt;
    auto plain = info->epilogue;
    plain.bias = false;
    if (!(plain == kernel::Epilogue{})) return std::nullopt;
    auto *w = node->input(1), *bias = info->epilogue.bias ? node->input(2) : nullptr;
    if (w->value.dtype != DataType::F32 || !w->value.constant || (bias && !bias->value.constant)) return std::nullopt;
    Dims dims;
    for (auto const& size : w->value.shape) dims.push_back(size.constant().value_or(0));
    auto channels = dims[0];
    return Branch{node->input(0), info->window, info->group, channels, std::move(dims), w, bias, {}};
}

/// a·x + b for one x of the shape of the result, and that x.
std::optional<std::pair<EdgePtr, Affine>> affine_by_channels(NodePtr node, int64_t channels) {
    if (!info_of<kernel::ElementwiseInfo>(*node->value.op) || node->outputs().size() != 1) return std::nullopt;
    for (auto* x : node->inputs()) {
        if (x->value.constant || x->value.shape != node->output()->value.shape || x->value.dtype != DataType::F32)
            continue;
        auto affine = affine_of(node, x, 1, channels);
        if (!affine) return std::nullopt;
        return std::pair{x, std::move(*affine)};
    }
    return std::nullopt;
}

bool is_private(EdgePtr edge) { return edge->producer() && edge->only_consumer() && !edge->value.keep; }

/// Functions of each channel of one tensor, one behind the other.
std::optional<Branch> diagonal(NodePtr node) {
    auto const& shape = node->output()->value.shape;
    auto channels = shape.size() < 3 ? std::nullopt : shape[1].constant();
    auto all = channels ? affine_by_channels(node, *channels) : std::nullopt;
    if (!all) return std::nullopt;
    auto& [x, affine] = *all;
    while (is_private(x)) {
        auto before = affine_by_channels(x->producer(), *channels);
        if (!before) break;
        Affine both{true, std::vector<double>(static_cast<size_t>(*channels)), {}};
        both.b = both.a;
        for (size_t i = 0; i < both.a.size(); ++i) {
            both.a[i] = pick(affine.a, i) * pick(before->second.a, i);
            both.b[i] = pick(affine.a, i) * pick(before->second.b, i) + pick(affine.b, i);
        }
        x = before->first, affine = std::move(both);
    }
    auto axes = shape.size() - 2;
    kernel::Window window{Dims(axes, 1), Dims(axes, 1), Dims(axes, 0), Dims(axes, 0)};
    Dims dims(2 + axes, 1);
    dims[0] = *channels;
    return Branch{x, std::move(window), 1, *channels, std::move(dims), nullptr, nullptr, std::move(affine)};
}

std::optional<Branch> branch_of(EdgePtr edge) {
    if (!is_private(edge) || edge->value.dtype != DataType::F32) return std::nullopt;
    if (auto branch = convolution(edge->producer())) return branch;
    return diagonal(edge->producer());
}

/// The numbers of an axis's taps of `large` that the taps of `small` are; empty if one of them is none.
std::vector<int64_t> places(Branch const& large, Branch const& small, size_t axis) {
    std::vector<int64_t> result;
    for (int64_t i = 0; i < small.weight_dims[axis + 2]; ++i) {
        auto distance = small.offset(axis, i) + large.window.pads_begin[axis], step = large.window.dilations[axis];
        if (distance < 0 || distance % step || distance / step >= large.weight_dims[axis + 2]) return {};
        result.push_back(distance / step);
    }
    return result;
}

using Places = std::vector<std::vector<int64_t>>;

/// Where the taps of `small` are among those of `large`; nothing unless both can be one convolution.
std::optional<Places> match(Branch const& large, Branch const& small) {
    bool same = large.x == small.x && large.channels == small.channels &&
                large.window.strides == small.window.strides && !large.diagonal &&
                (small.diagonal ? large.weight_dims[1] * large.group == large.channels : large.group == small.group);
    if (!same) return std::nullopt;
    Places result;
    for (size_t axis = 0; axis < large.axes(); ++axis) {
        result.push_back(places(large, small, axis));
        if (result.back().empty()) return std::nullopt;
    }
    return result;
}

/// The tap of `large` that tap `tap` of `small` is.
int64_t place_of(Branch const& large, Branch const& small, Places const& places, int64_t tap) {
    int64_t place = 0, step = 1;
    for (auto axis = large.axes(); axis-- > 0;) {
        auto size = small.weight_dims[axis + 2];
        place += places[axis][static_cast<size_t>(tap % size)] * step;
        tap /= size, step *= large.weight_dims[axis + 2];
    }
    return place;
}

SharedBlob sum_of_weights(Branch large, Branch small, Places const& places) {
    auto bytes = large.w->value.constant->bytes();
    std::vector<SharedBlob> all{large.w->value.constant, small.diagonal ? nullptr : small.w->value.constant};
    // The graph's edges may be gone when it is made again.
    for (auto* branch : {&large, &small}) branch->x = branch->w = branch->b = nullptr;
    auto add = [=](std::span<void const* const> from, void* to) {
        std::memcpy(to, from[0], bytes);
        auto* sums = static_cast<float*>(to);
        auto const* others = static_cast<float const*>(from[1]);
        auto in_group = large.weight_dims[1], taps = large.taps(), few = small.taps();
        for (int64_t tap = 0; tap < few; ++tap) {
            auto place = place_of(large, small, places, tap);
            auto add_to = [&](int64_t m, int64_t c, double x) {
                auto& sum = sums[(m * in_group + c) * taps + place];
                sum = static_cast<float>(static_cast<double>(sum) + x);
            };
            for (int64_t m = 0; m < large.channels; ++m) {
                if (small.diagonal) add_to(m, m % in_group, pick(small.diagonal->a, static_cast<size_t>(m)));
                for (int64_t c = 0; c < in_group && !small.diagonal; ++c)
                    add_to(m, c, static_cast<double>(others[(m * in_group + c) * few + tap]));
            }
        }
    };
    return make_constant(bytes, std::move(all), add);
}

std::vector<double> sum_of_biases(Branch const& large, Branch const& small) {
    std::vector<double> sums(static_cast<size_t>(large.channels), 0.);
    for (auto const* branch : {&large, &small}) {
        auto bias = branch->diagonal ? branch->diagonal->b
                    : branch->b      ? *numbers_of(branch->b)
                                     : std::vector<double>{0};
        for (size_t m = 0; m < sums.size(); ++m) sums[m] += pick(bias, m);
    }
    return sums;
}

bool merge(Graph& graph, NodePtr sum) {
    auto operands = operands_of_sum(sum);
    if (!operands || operands->first == operands->second) return false;
    auto a = branch_of(operands->first), b = branch_of(operands->second);
    if (!a || !b) return false;
    auto places = match(*a, *b);
    bool first = places.has_value();
    if (!first) places = match(*b, *a);
    if (!places) return false;
    auto const &large = first ? *a : *b, &small = first ? *b : *a;
    auto* node = (first ? operands->first : operands->second)->producer();
    auto info = *info_of<kernel::ConvInfo>(*node->value.op);
    info.epilogue.bias = true;
    auto* weights = add_constant(graph, node->value.name + ".weights", DataType::F32, large.w->value.shape,
                                 sum_of_weights(large, small, *places));
    auto sums = sum_of_biases(large, small);
    auto* bias = add_numbers(graph, node->value.name + ".bias", std::vector<float>(sums.begin(), sums.end()));
    auto* made = graph.insert({node->value.name, make_operator(info)}, {large.x, weights, bias});
    made->output()->value = sum->output()->value;
    graph.replace_all_uses(sum->output(), made->output());
    graph.erase_unused(sum);
    return true;
}

}  // namespace

int merge_branches(Model& model, PassContext const&) {
    int merged = 0;
    for (auto* node : model.graph.topological()) merged += merge(model.graph, node);
    return merged;
}

}  // namespace refactor::computation
