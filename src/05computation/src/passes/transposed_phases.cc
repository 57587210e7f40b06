#include "passes/transposed_phases.h"

#include "kernel/ops/movement.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "passes/constants.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace refactor::computation {

namespace {

int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

/// Taps that are zeros may at most double the operations.
constexpr int64_t kMostWork = 2;
/// Groups of fewer input channels leave most of a product's depth empty.
constexpr int64_t kLeastGroup = 8;

EdgePtr insert(Graph& graph, std::string const& name, std::shared_ptr<Operator const> op, EdgePtr x, Shape shape) {
    auto* node = graph.insert({name, std::move(op)}, {x});
    node->output()->value = {name, x->value.dtype, std::move(shape), {}, nullptr, false};
    return node->output();
}

/// To the last place, or back.
kernel::TransposeInfo moved_channels(size_t rank, bool to_last) {
    kernel::TransposeInfo info;
    auto n = static_cast<int64_t>(rank);
    info.perm.push_back(0);
    for (int64_t i = 1; i < n; ++i) info.perm.push_back(to_last ? i % (n - 1) + 1 : (i + n - 3) % (n - 1) + 1);
    return info;
}

}  // namespace

int64_t TransposedPhases::phases() const {
    int64_t count = 1;
    for (auto stride : strides_) count *= stride;
    return count;
}

std::string TransposedPhases::init(NodePtr node, kernel::ConvTransposeInfo const& info) {
    auto const &x = node->input(0)->value.shape, &w = node->input(1)->value.shape, &y = node->output()->value.shape;
    if (!node->value.op->params().empty() || info.channels_last) return "its pads are not known";
    auto in = w[0].constant(), out = w[1].constant();
    if (!in || !out || x.size() < 3 || x.size() > 5) return "the number of channels or axes is not known";
    axes_ = x.size() - 2, group_ = info.group, in_channels_ = *in / group_, out_channels_ = *out;
    strides_ = info.window.strides, dilations_ = info.window.dilations;
    if (group_ > 1 && in_channels_ < kLeastGroup)
        return "its groups have " + std::to_string(in_channels_) + " channels, expected at least " +
               std::to_string(kLeastGroup);
    int64_t real = 1, all = 1;
    for (size_t i = 0; i < axes_; ++i) {
        auto kernel = w[i + 2].constant();
        if (!kernel || *kernel < 1) return "the size of the kernel is not known";
        auto stride = strides_[i], pad = info.window.pads_begin[i];
        // How far the outputs reach beyond the inputs, in positions of X.
        auto beyond = (y[i + 2] - x[i + 2] * stride).constant();
        if (!beyond) return "the size of axis " + std::to_string(i + 2) + " is no multiple of the input's";
        auto taps = ceil_div((*kernel - 1) * dilations_[i] + 1, stride);
        auto first = std::clamp<int64_t>(pad / stride, 0, taps - 1), end = ceil_div(*beyond + pad, stride);
        if (pad < 0 || end < 0) return "its pads cut off inputs";
        kernel_.push_back(*kernel), taps_.push_back(taps), first_.push_back(first);
        crop_.push_back(pad - first * stride);
        window_.strides.push_back(1), window_.dilations.push_back(1);
        window_.pads_begin.push_back(taps - 1 - first), window_.pads_end.push_back(end);
        positions_.push_back(x[i + 2] + (end - first)), y_.push_back(y[i + 2]);
        cropped_ = cropped_ || crop_.back() || !(positions_.back() * stride == y[i + 2]);
        real *= *kernel, all *= taps * stride;
    }
    if (all > kMostWork * real)
        return std::to_string(all - real) + " of " + std::to_string(all) + " taps of its phases would be zeros";
    return {};
}

EdgePtr TransposedPhases::weights(Graph& graph, EdgePtr w, std::vector<double> const& zeros) const {
    auto count = phases(), channels = group_ * count * out_channels_;
    Shape shape{DimExpr(channels), DimExpr(in_channels_)};
    int64_t taps = 1, kernel = 1;
    for (size_t i = 0; i < axes_; ++i) shape.push_back(DimExpr(taps_[i])), taps *= taps_[i], kernel *= kernel_[i];
    auto bytes = static_cast<size_t>(channels * in_channels_ * taps);
    auto blob = mem_manager::Blob::make(mem_manager::cpu_device(), bytes);
    mem_manager::Blob::Reader reader(*w->value.constant);
    auto const* from = static_cast<uint8_t const*>(reader.data());
    auto* to = static_cast<uint8_t*>(blob->data());
    for (int64_t channel = 0; channel < channels; ++channel) {
        auto m = channel % out_channels_, phase = channel / out_channels_ % count, g = channel / out_channels_ / count;
        auto zero = static_cast<uint8_t>(static_cast<int32_t>(zeros[zeros.size() > 1 ? static_cast<size_t>(m) : 0]));
        for (int64_t tap = 0; tap < taps; ++tap) {
            // Where the tap is in the kernel; the convolution reads them in the order of X.
            int64_t at = 0, rest_phase = phase, rest_tap = tap, step = 1;
            bool real = true;
            for (auto i = axes_; i-- > 0;) {
                auto r = rest_phase % strides_[i], t = taps_[i] - 1 - rest_tap % taps_[i];
                rest_phase /= strides_[i], rest_tap /= taps_[i];
                auto place = t * strides_[i] + r, k = place / dilations_[i];
                real = real && place % dilations_[i] == 0 && k < kernel_[i];
                at += k * step, step *= kernel_[i];
            }
            for (int64_t c = 0; c < in_channels_; ++c)
                to[(channel * in_channels_ + c) * taps + tap] =
                    real ? from[((g * in_channels_ + c) * out_channels_ + m) * kernel + at] : zero;
        }
    }
    return add_constant(graph, w->value.name + "/phases", w->value.dtype, std::move(shape), std::move(blob));
}

EdgePtr TransposedPhases::channels_last(Graph& graph, EdgePtr x) const {
    auto const& shape = x->value.shape;
    Shape moved{shape[0]};
    moved.insert(moved.end(), shape.begin() + 2, shape.end());
    moved.push_back(shape[1]);
    return insert(graph, x->value.name + "/last", make_operator(moved_channels(shape.size(), true)), x,
                  std::move(moved));
}

Shape TransposedPhases::shape(DimExpr const& batch) const {
    Shape shape{batch};
    shape.insert(shape.end(), positions_.begin(), positions_.end());
    shape.push_back(DimExpr(group_ * phases() * out_channels_));
    return shape;
}

void TransposedPhases::spread(Graph& graph, EdgePtr x, EdgePtr y) const {
    auto const& name = y->value.name;
    auto batch = x->value.shape[0];
    // [N, positions…, group, strides…, channels] to [N, (position, stride)…, group, channels].
    Shape apart{batch}, turned{batch}, joined{batch};
    kernel::TransposeInfo turn;
    turn.perm.push_back(0);
    auto axes = static_cast<int64_t>(axes_);
    apart.insert(apart.end(), positions_.begin(), positions_.end());
    apart.push_back(DimExpr(group_));
    for (size_t i = 0; i < axes_; ++i) {
        apart.push_back(DimExpr(strides_[i]));
        turned.push_back(positions_[i]), turned.push_back(DimExpr(strides_[i]));
        joined.push_back(positions_[i] * strides_[i]);
        turn.perm.push_back(static_cast<int64_t>(i) + 1), turn.perm.push_back(axes + 2 + static_cast<int64_t>(i));
    }
    turn.perm.push_back(axes + 1), turn.perm.push_back(2 * axes + 2);
    for (auto* shape : {&apart, &turned}) {
        if (shape == &turned) shape->push_back(DimExpr(group_));
        shape->push_back(DimExpr(out_channels_));
    }
    joined.push_back(DimExpr(channels()));
    x = insert(graph, name + "/apart", std::make_shared<Reshape>(), x, std::move(apart));
    x = insert(graph, name + "/turned", make_operator(turn), x, std::move(turned));
    x = insert(graph, name + "/joined", std::make_shared<Reshape>(), x, std::move(joined));
    if (cropped_) {
        Shape kept{batch};
        kept.insert(kept.end(), y_.begin(), y_.end());
        kept.push_back(DimExpr(channels()));
        std::vector<DimExpr> starts(axes_ + 2, DimExpr(0));
        for (size_t i = 0; i < axes_; ++i) starts[i + 1] = DimExpr(crop_[i]);
        x = insert(graph, name + "/cropped", make_operator(kernel::SliceInfo{Dims(axes_ + 2, 1)}, std::move(starts)), x,
                   std::move(kept));
    }
    Node back{name + "/first", make_operator(moved_channels(axes_ + 2, false))};
    graph.insert_producing(std::move(back), std::array{x}, std::array{y});
}

}  // namespace refactor::computation
