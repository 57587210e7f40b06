#include "passes/fuse_epilogues.h"

#include "kernel/ops/movement.h"
#include "passes/epilogue_host.h"
#include "passes/expression.h"

#include <limits>

namespace refactor::computation {

using kernel::Activation;
using kernel::ActivationKind;
using kernel::ExprOp;

namespace {

std::optional<Activation> activation_of(Expression const& expression, uint16_t i) {
    auto const& instruction = expression.code[i];
    auto with = [&](ActivationKind kind) { return Activation{kind, instruction.alpha, instruction.beta}; };
    switch (instruction.op) {
        case ExprOp::Relu:
            return Activation{ActivationKind::Relu, 0, 0};
        case ExprOp::Sigmoid:
            return Activation{ActivationKind::Sigmoid, 0, 0};
        case ExprOp::Silu:
            return Activation{ActivationKind::Silu, 0, 0};
        case ExprOp::HardSwish:
            return Activation{ActivationKind::HardSwish, 1, 0};
        case ExprOp::GeluErf:
            return Activation{ActivationKind::GeluErf, 0, 0};
        case ExprOp::GeluTanh:
            return Activation{ActivationKind::GeluTanh, 0, 0};
        case ExprOp::Tanh:
            return Activation{ActivationKind::Tanh, 0, 0};
        case ExprOp::LeakyRelu:
            return with(ActivationKind::LeakyRelu);
        case ExprOp::HardSigmoid:
            return with(ActivationKind::HardSigmoid);
        case ExprOp::Clip: {
            auto low = expression.constant(instruction.operands[1]),
                 high = expression.constant(instruction.operands[2]);
            if (!low || !high) return std::nullopt;
            if (*low == 0 && *high >= std::numeric_limits<float>::max()) return Activation{ActivationKind::Relu, 0, 0};
            return Activation{ActivationKind::Clip, static_cast<float>(*low), static_cast<float>(*high)};
        }
        default:
            return std::nullopt;
    }
}

/// One Elementwise node that reads the output of one host.
class Fusion {
    Graph& graph_;
    NodePtr host_, node_;
    kernel::Epilogue epilogue_;
    DataType type_;  ///< of what the host computes
    Expression expression_;

    /// The instruction that alone reads the host's output, if there is exactly one such use.
    std::optional<uint16_t> reader() const {
        std::optional<uint16_t> found;
        auto const& code = expression_.code;
        for (auto output : expression_.outputs)
            if (expression_.input(output) == host_->output()) return std::nullopt;
        for (uint16_t i = 0; i < code.size(); ++i) {
            if (code[i].op == ExprOp::Input) continue;
            for (int k = 0; k < kernel::arity_of(code[i].op); ++k) {
                if (expression_.input(code[i].operands[k]) != host_->output()) continue;
                if (found) return std::nullopt;
                found = i;
            }
        }
        return found;
    }

    /// Instruction `i` now is the host's output itself.
    void absorb(uint16_t i) {
        uint16_t number = 0;
        while (expression_.inputs[number] != host_->output()) ++number;
        expression_.code[i] = {};
        expression_.code[i].op = ExprOp::Input, expression_.code[i].dtype = type_;
        expression_.code[i].operands[0] = number;
        expression_.normalize();
    }

    bool take_activation(uint16_t i) {
        auto const& instruction = expression_.code[i];
        if (instruction.dtype != type_ || expression_.input(instruction.operands[0]) != host_->output()) return false;
        auto activation = activation_of(expression_, i);
        if (!activation || epilogue_.activation.kind != ActivationKind::None) return false;
        epilogue_.activation = *activation;
        absorb(i);
        return true;
    }

    /// A scale or shift behind HardSwish, as the blocks of PP-LCNetV3 learn them.
    bool take_affine(uint16_t i) {
        auto const& instruction = expression_.code[i];
        auto& activation = epilogue_.activation;
        bool scales = instruction.op == ExprOp::Mul, shifts = instruction.op == ExprOp::Add;
        if (activation.kind != ActivationKind::HardSwish || instruction.dtype != type_ || (!scales && !shifts))
            return false;
        bool first = expression_.input(instruction.operands[0]) == host_->output();
        auto value = expression_.constant(instruction.operands[first ? 1 : 0]);
        if (!value) return false;
        auto factor = static_cast<float>(*value);
        if (scales)
            activation.alpha *= factor, activation.beta *= factor;
        else
            activation.beta += factor;
        absorb(i);
        return true;
    }

    bool take_residual(uint16_t i) {
        auto const& instruction = expression_.code[i];
        if (instruction.op != ExprOp::Add || instruction.dtype != type_ || epilogue_.residual) return false;
        auto* other = expression_.input(instruction.operands[0]);
        if (other == host_->output()) other = expression_.input(instruction.operands[1]);
        if (!other || other == host_->output() || other->is_source() || other->value.dtype != type_ ||
            other->value.shape != host_->output()->value.shape)
            return false;
        epilogue_.residual = true;
        epilogue_.residual_last = epilogue_.activation.kind != ActivationKind::None;
        graph_.push_input(host_, other);
        absorb(i);
        return true;
    }

public:
    Fusion(Graph& graph, NodePtr host, NodePtr node, kernel::Epilogue epilogue)
        : graph_(graph),
          host_(host),
          node_(node),
          epilogue_(epilogue),
          type_(host->output()->value.dtype),
          expression_(Expression::of(node)) {}

    int run() {
        expression_.normalize();
        int changes = 0;
        for (bool changed = true; changed;) {
            auto i = reader();
            changed = i && (take_activation(*i) || take_affine(*i) || take_residual(*i));
            // After `act(x) + residual` nothing fits behind it.
            changes += changed;
            if (changed && epilogue_.residual_last) break;
        }
        if (!changes) return 0;
        set_epilogue(host_, epilogue_);
        auto const& outputs = expression_.outputs;
        if (outputs.size() == 1 && expression_.input(outputs[0]) == host_->output()) {
            host_->output()->value = node_->output()->value;
            graph_.replace_all_uses(node_->output(), host_->output());
            graph_.erase(node_);
        } else {
            expression_.store(graph_, node_);
        }
        return changes;
    }
};

bool only_moves(NodePtr node) {
    return node->outputs().size() == 1 &&
           (node->value.op->is_alias() || info_of<kernel::TransposeInfo>(*node->value.op));
}

/// An activation behind a Transpose or Reshape of the host's output, or several, is the host's as well: the moves keep
/// every element.
bool take_moved_activation(Graph& graph, NodePtr host, kernel::Epilogue epilogue) {
    if (epilogue.activation.kind != ActivationKind::None) return false;
    auto* edge = host->output();
    auto* node = edge->only_consumer();
    for (; node && only_moves(node); node = edge->only_consumer()) {
        edge = node->output();
        if (edge->value.keep) return false;
    }
    if (!node || edge == host->output() || !info_of<kernel::ElementwiseInfo>(*node->value.op)) return false;
    auto expression = Expression::of(node);
    expression.normalize();
    auto type = edge->value.dtype;
    bool unary = expression.inputs.size() == 1 && expression.outputs.size() == 1 && expression.inputs[0] == edge;
    if (!unary || expression.input(expression.outputs[0]) || node->output()->value.dtype != type) return false;
    auto const last = expression.outputs[0];
    auto activation = activation_of(expression, last);
    if (!activation || expression.input(expression.code[last].operands[0]) != edge) return false;
    epilogue.activation = *activation;
    set_epilogue(host, epilogue);
    edge->value = node->output()->value;
    graph.replace_all_uses(node->output(), edge);
    graph.erase(node);
    return true;
}

}  // namespace

int fuse_epilogues(Model& model, PassContext const& context) {
    // Halves are computed by f32 kernels on the CPU, by their own elsewhere, which round once.
    auto is_fusible = [&](DataType type) {
        bool half = type == DataType::F16 || type == DataType::BF16;
        return type == DataType::F32 || (half && context.options.device != "cpu");
    };
    int changes = 0;
    for (auto* host : model.graph.topological()) {
        if (host->outputs().size() != 1 || host->output()->value.keep) continue;
        auto epilogue = epilogue_of(host);
        auto* node = epilogue ? host->output()->only_consumer() : nullptr;
        if (!node || !is_fusible(host->output()->value.dtype)) continue;
        if (only_moves(node)) changes += take_moved_activation(model.graph, host, *epilogue);
        if (!info_of<kernel::ElementwiseInfo>(*node->value.op)) continue;
        if (node->output()->value.shape != host->output()->value.shape || epilogue->residual_last) continue;
        changes += Fusion(model.graph, host, node, *epilogue).run();
    }
    return changes;
}

}  // namespace refactor::computation
