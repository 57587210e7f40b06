#include "passes/move_quantization.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "passes/expression.h"
#include "passes/fold_constants.h"
#include "passes/quantized.h"

#include <array>

namespace refactor::computation {

namespace {

/// Elements of output 0 are elements of input 0, whatever their type.
bool only_moves(NodePtr node) {
    auto const& op = *node->value.op;
    if (node->outputs().size() != 1 || !node->input(0)) return false;
    if (auto const* resize = info_of<kernel::ResizeInfo>(op))
        return resize->mode == kernel::ResizeMode::Nearest && !resize->antialias &&
               resize->coordinates != kernel::ResizeCoordinates::TfCropAndResize;
    if (auto const* pad = info_of<kernel::PadInfo>(op)) return pad->mode != kernel::PadMode::Constant;
    return op.is_alias() || info_of<kernel::TransposeInfo>(op) || info_of<kernel::SliceInfo>(op) ||
           info_of<kernel::ExpandInfo>(op) || info_of<kernel::GatherInfo>(op);
}

bool is_max_pool(NodePtr node) {
    auto const* pool = info_of<kernel::PoolInfo>(*node->value.op);
    return pool && pool->kind == kernel::PoolKind::Max && node->outputs().size() == 1;
}

Edge edge_like(EdgePtr edge, std::string name, DataType dtype) {
    return {std::move(name), dtype, edge->value.shape, {}, nullptr, false};
}

class Mover {
    Graph& graph_;

    /// `node` reads bytes, and a Dequantize node behind it makes its old output.
    void read_bytes(NodePtr node, std::vector<QuantizedOperand> const& operands, kernel::DequantizeInfo const& info) {
        auto* old = node->output();
        std::vector<EdgePtr> inputs(node->inputs().begin(), node->inputs().end());
        for (size_t i = 0; i < operands.size(); ++i) inputs[i] = operands[i].data;
        auto* moved = graph_.insert({node->value.name, node->value.op}, inputs);
        moved->output()->value = edge_like(old, old->value.name + "/quantized", operands[0].data->value.dtype);
        graph_.insert_producing({node->value.name + "/dequantize", make_operator(info)},
                                {moved->output(), operands[0].scale, operands[0].zero}, {old});
        std::vector<NodePtr> before;
        for (auto* input : node->inputs())
            if (input && input->producer()) before.push_back(input->producer());
        graph_.erase(node);
        for (auto* n : before)
            if (n->alive() && n->output()->use_count() == 0 && !n->output()->value.keep) graph_.erase(n);
        fold_constant(graph_, moved);
    }

    /// Weights may have a scale for each channel.
    bool sink_transposed(NodePtr node, QuantizedOperand const& operand) {
        auto const* transpose = info_of<kernel::TransposeInfo>(*node->value.op);
        if (!transpose || !operand.data->value.constant || operand.granularity.block) return false;
        kernel::DequantizeInfo info{operand.granularity};
        for (size_t i = 0; i < transpose->perm.size(); ++i)
            if (transpose->perm[i] == operand.granularity.axis) info.granularity.axis = static_cast<int64_t>(i);
        read_bytes(node, {operand}, info);
        return true;
    }

    bool sink_split(NodePtr node) {
        auto operand = dequantized(node->input(0));
        if (!operand || !quantum_of(*operand)) return false;
        std::vector<EdgePtr> const parts(node->outputs().begin(), node->outputs().end());
        auto* moved = graph_.insert({node->value.name, node->value.op}, {operand->data}, parts.size());
        for (size_t i = 0; i < parts.size(); ++i) {
            auto* bytes = moved->output(i);
            bytes->value = edge_like(parts[i], parts[i]->value.name + "/quantized", operand->data->value.dtype);
            graph_.insert_producing({parts[i]->value.name + "/dequantize", make_operator(kernel::DequantizeInfo{})},
                                    {bytes, operand->scale, operand->zero}, {parts[i]});
        }
        auto* before = node->input(0)->producer();
        graph_.erase(node);
        if (before->output()->use_count() == 0 && !before->output()->value.keep) graph_.erase(before);
        return true;
    }

    bool sink_concat(NodePtr node) {
        std::vector<QuantizedOperand> operands;
        std::optional<Quantum> common;
        for (auto* input : node->inputs()) {
            auto operand = dequantized(input);
            auto quantum = operand ? quantum_of(*operand) : std::nullopt;
            if (!quantum || (common && !(*common == *quantum))) return false;
            common = quantum;
            operands.push_back(*operand);
        }
        read_bytes(node, operands, {});
        return true;
    }

    /// Quantize, or elementwise of one variable: input 0 is the variable, or `slot`.
    std::optional<size_t> variable_of(NodePtr node) const {
        if (node->outputs().size() != 1) return std::nullopt;
        if (quantizer(node)) return 0;
        if (!info_of<kernel::ElementwiseInfo>(*node->value.op)) return std::nullopt;
        std::optional<size_t> found;
        for (size_t i = 0; i < node->inputs().size(); ++i) {
            if (scalar_constant(node->input(i))) continue;
            if (found) return std::nullopt;
            found = i;
        }
        if (!found || node->input(*found)->value.shape != node->output()->value.shape) return std::nullopt;
        return found;
    }

    /// `node` with `x` as input `slot`, in front of what moves it.
    EdgePtr copy_in_front(NodePtr node, size_t slot, EdgePtr x) {
        std::vector<EdgePtr> inputs(node->inputs().begin(), node->inputs().end());
        inputs[slot] = x;
        auto* copy = graph_.insert({node->value.name, node->value.op}, inputs);
        auto* old = node->output();
        copy->output()->value = edge_like(x, x->value.name + "/quantized", old->value.dtype);
        return copy->output();
    }

public:
    explicit Mover(Graph& graph) : graph_(graph) {}

    bool sink(NodePtr node) {
        if (info_of<kernel::ConcatInfo>(*node->value.op)) return sink_concat(node);
        if (info_of<kernel::SplitInfo>(*node->value.op)) return sink_split(node);
        if (!only_moves(node) && !is_max_pool(node)) return false;
        auto operand = dequantized(node->input(0));
        if (!operand) return false;
        if (!quantum_of(*operand)) return sink_transposed(node, *operand);
        read_bytes(node, {*operand}, {});
        return true;
    }

    /// What `node` computes from one variable is computed before that is moved.
    bool hoist(NodePtr node) {
        auto slot = variable_of(node);
        if (!slot) return false;
        auto* x = node->input(*slot);
        auto* mover = x->producer();
        if (!mover || x->value.keep || x->only_consumer() != node) return false;
        bool concat = info_of<kernel::ConcatInfo>(*mover->value.op) != nullptr;
        bool pool = is_max_pool(mover);
        // Others may drop elements; what pooling drops is quantised where it is made, and maxima are those of bytes.
        if (!concat && !pool && !mover->value.op->is_alias() && !info_of<kernel::TransposeInfo>(*mover->value.op))
            return false;
        if (mover->input(0)->is_source()) return false;
        auto quantum = quantizer(node);
        if (pool && !(quantum && quantum->scale > 0)) return false;
        if (!quantum) {
            auto* next = node->output()->only_consumer();
            if (concat || !next || !quantizer(next)) return false;
        }
        std::vector<EdgePtr> inputs(mover->inputs().begin(), mover->inputs().end());
        for (size_t i = 0; i < (concat ? inputs.size() : 1); ++i) inputs[i] = copy_in_front(node, *slot, inputs[i]);
        auto* old = node->output();
        graph_.insert_producing({mover->value.name, mover->value.op}, inputs, std::array{old});
        graph_.erase(node);
        graph_.erase(mover);
        return true;
    }

    /// Quantize(Dequantize(q)) with one quantum is q.
    bool cancel(NodePtr node) {
        auto to = quantizer(node);
        auto operand = to ? dequantized(node->input(0)) : std::nullopt;
        if (!operand || quantum_of(*operand) != to || node->output()->value.keep || node->output()->is_output())
            return false;
        auto* before = node->input(0)->producer();
        graph_.replace_all_uses(node->output(), operand->data);
        graph_.erase(node);
        if (before->output()->use_count() == 0 && !before->output()->value.keep) graph_.erase(before);
        return true;
    }
};

}  // namespace

int move_quantization(Model& model, PassContext const&) {
    int changes = 0;
    Mover mover(model.graph);
    for (auto* node : model.graph.topological()) changes += mover.sink(node);
    for (bool again = true; again;) {
        again = false;
        for (auto* node : model.graph.topological().reversed()) again |= mover.hoist(node);
        changes += again;
    }
    for (auto* node : model.graph.topological()) changes += mover.cancel(node);
    return changes;
}

}  // namespace refactor::computation
