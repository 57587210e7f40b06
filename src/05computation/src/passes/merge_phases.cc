#include "passes/merge_phases.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "made_constants.h"
#include "passes/constants.h"
#include "passes/insert_step.h"

namespace refactor::computation {

namespace {

/// Sizes of a transposed convolution that are known when it is compiled, one entry per spatial axis.
struct Sizes {
    int64_t inputs, outputs, phases = 1;
    Dims kernel, strides, taps, before;  ///< taps of a phase; positions cut off at the start
    std::vector<DimExpr> positions;      ///< of a phase
    bool cuts = false;                   ///< the phases hold more than the output
};

int64_t product(Dims const& dims) {
    int64_t all = 1;
    for (auto d : dims) all *= d;
    return all;
}

std::optional<Sizes> sizes_of(NodePtr node, kernel::ConvTransposeInfo const& info) {
    auto const &x = node->input(0)->value, &w = node->input(1)->value, &y = node->output()->value;
    auto rank = w.shape.size() - 2;
    Sizes s;
    SmallVector<int64_t, 8> dims;
    for (auto const& size : w.shape) {
        auto known = size.constant();
        if (!known) return std::nullopt;
        dims.push_back(*known);
    }
    s.inputs = dims[0], s.outputs = dims[1];
    for (size_t i = 0; i < rank; ++i) {
        auto kernel = dims[2 + i], stride = info.window.strides[i], before = info.window.pads_begin[i];
        auto taps = (kernel + stride - 1) / stride;
        auto positions = x.shape[2 + i] + (taps - 1);
        auto left = (positions * stride - before - y.shape[2 + i]).constant();
        if (info.window.dilations[i] != 1 || before < 0 || !left || *left < 0) return std::nullopt;
        s.cuts = s.cuts || before > 0 || *left > 0;
        s.kernel.push_back(kernel), s.strides.push_back(stride), s.taps.push_back(taps), s.before.push_back(before);
        s.positions.push_back(positions), s.phases *= stride;
    }
    return s;
}

/// Whether the vectors of a convolution over all phases do at most half the work of the phases one by one.
bool worthwhile(Sizes const& s, int64_t block) {
    auto filled = [&](int64_t channels) { return (channels + block - 1) / block * block; };
    return s.phases > 1 && 2 * filled(s.outputs * s.phases) * product(s.taps) <= filled(s.outputs) * product(s.kernel);
}

/// Row-major coordinates.
Dims coordinates(int64_t index, Dims const& sizes) {
    Dims at(sizes.size());
    for (auto i = sizes.size(); i-- > 0; index /= sizes[i]) at[i] = index % sizes[i];
    return at;
}

/// [C, M, kernel…] to [M * phases, C, taps…], the taps turned round.
EdgePtr phase_weights(Graph& graph, EdgePtr w, Sizes const& s) {
    auto taps = product(s.taps), all = product(s.kernel), count = s.outputs * s.phases * s.inputs * taps;
    auto turn = [=](std::span<void const* const> sources, void* target) {
        auto const* from = static_cast<float const*>(sources[0]);
        auto* to = static_cast<float*>(target);
        std::fill_n(to, count, 0.f);
        for (int64_t r = 0; r < s.phases; ++r)
            for (int64_t t = 0; t < taps; ++t) {
                auto phase = coordinates(r, s.strides), tap = coordinates(t, s.taps);
                int64_t k = 0;
                bool inside = true;
                for (size_t i = 0; i < tap.size(); ++i) {
                    auto at = phase[i] + (s.taps[i] - 1 - tap[i]) * s.strides[i];
                    inside = inside && at < s.kernel[i];
                    k = k * s.kernel[i] + at;
                }
                for (int64_t m = 0; inside && m < s.outputs; ++m)
                    for (int64_t c = 0; c < s.inputs; ++c)
                        to[((m * s.phases + r) * s.inputs + c) * taps + t] = from[(c * s.outputs + m) * all + k];
            }
    };
    Shape shape{DimExpr(s.outputs * s.phases), DimExpr(s.inputs)};
    for (auto t : s.taps) shape.push_back(DimExpr(t));
    return add_constant(graph, w->value.name + ".phases", DataType::F32, shape,
                        make_constant(static_cast<size_t>(count) * sizeof(float), {w->value.constant}, turn));
}

EdgePtr phase_bias(Graph& graph, EdgePtr bias, Sizes const& s) {
    auto const* from = static_cast<float const*>(bias->value.constant->data());
    std::vector<float> to;
    for (int64_t m = 0; m < s.outputs; ++m) to.insert(to.end(), static_cast<size_t>(s.phases), from[m]);
    return add_constant(graph, bias->value.name + ".phases", {DimExpr(s.outputs * s.phases)}, to);
}

/// [N, M * phases, positions…] to [N, M, positions * strides…] without the positions before the output and after it.
EdgePtr side_by_side(Graph& graph, EdgePtr merged, EdgePtr y, Sizes const& s) {
    auto axes = s.strides.size();
    auto const& batch = merged->value.shape[0];
    Shape apart{batch, DimExpr(s.outputs)}, woven = apart, whole = apart;
    kernel::TransposeInfo order{{0, 1}};
    for (size_t i = 0; i < axes; ++i) {
        apart.push_back(DimExpr(s.strides[i]));
        woven.push_back(s.positions[i]), woven.push_back(DimExpr(s.strides[i]));
        whole.push_back(s.positions[i] * s.strides[i]);
        order.perm.push_back(static_cast<int64_t>(2 + axes + i)), order.perm.push_back(static_cast<int64_t>(2 + i));
    }
    for (auto const& size : s.positions) apart.push_back(size);
    auto* edge = insert_step(graph, y, "apart", std::make_shared<Reshape>(), {merged}, apart);
    edge = insert_step(graph, y, "woven", make_operator(order), {edge}, woven);
    edge = insert_step(graph, y, "whole", std::make_shared<Reshape>(), {edge}, whole);
    if (!s.cuts) return edge;
    std::vector<DimExpr> starts(2, DimExpr(0));
    for (auto start : s.before) starts.push_back(DimExpr(start));
    return insert_step(graph, y, "cut", make_operator(kernel::SliceInfo{Dims(2 + axes, 1)}, starts), {edge},
                       y->value.shape);
}

bool merge(Graph& graph, NodePtr node, int64_t block) {
    auto const* info = info_of<kernel::ConvTransposeInfo>(*node->value.op);
    if (!info || info->group != 1 || info->epilogue.residual || !node->value.op->params().empty() ||
        info->epilogue.activation.kind != kernel::ActivationKind::None)
        return false;
    auto *w = node->input(1), *y = node->output();
    bool constant = w->value.constant != nullptr && (!info->epilogue.bias || node->input(2)->value.constant);
    if (!constant || w->value.dtype != DataType::F32 || w->value.shape.size() < 3) return false;
    auto s = sizes_of(node, *info);
    if (!s || !worthwhile(*s, block)) return false;
    kernel::ConvInfo conv;
    conv.epilogue = info->epilogue;
    Dims ones(s->taps.size(), 1), pads;
    for (auto taps : s->taps) pads.push_back(taps - 1);
    conv.window = {ones, ones, pads, pads};
    std::vector<EdgePtr> inputs{node->input(0), phase_weights(graph, w, *s)};
    if (info->epilogue.bias) inputs.push_back(phase_bias(graph, node->input(2), *s));
    Shape shape{node->input(0)->value.shape[0], DimExpr(s->outputs * s->phases)};
    for (auto const& size : s->positions) shape.push_back(size);
    auto* result = side_by_side(graph, insert_step(graph, y, "phases", make_operator(conv), inputs, shape), y, *s);
    result->value = y->value;
    graph.replace_all_uses(y, result);
    graph.erase_unused(node);
    return true;
}

}  // namespace

int merge_phases(Model& model, PassContext const& context) {
    if (context.options.device != "cpu" || context.isa < Isa::Avx2) return 0;
    int changed = 0;
    for (auto* node : model.graph.topological())
        changed += merge(model.graph, node, context.isa >= Isa::Avx512 ? 16 : 8);
    return changed;
}

}  // namespace refactor::computation
