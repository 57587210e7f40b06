#include "passes/narrow_blocks.h"

#include "ask_kernels.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/conv_chain.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/movement.h"
#include "passes/estimates.h"
#include "passes/lower_precision.h"

#include <algorithm>
#include <unordered_map>

namespace refactor::computation {

namespace {

using kernel::ExprInstruction;
using kernel::ExprOp;
using kernel::Layout;

bool is_blocked(EdgePtr edge) {
    return edge && edge->value.layout == Layout::Blocked16 && edge->value.dtype == DataType::F32 && !edge->is_source();
}

bool has_one_position(EdgePtr edge) {
    auto const& shape = edge->value.shape;
    return std::all_of(shape.begin() + std::min<ptrdiff_t>(2, std::ssize(shape)), shape.end(),
                       [](auto const& size) { return size == DimExpr(1); });
}

/// Tensors that are of one type, whichever it is.
class Alike {
    std::unordered_map<EdgePtr, size_t> number_;
    std::vector<size_t> parent_;
    std::vector<bool> wide_;  ///< stays f32; of a root, for all

    size_t root_of(EdgePtr edge) {
        auto i = number_.at(edge);
        while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
        return i;
    }

public:
    void add(EdgePtr edge) {
        number_[edge] = parent_.size(), parent_.push_back(parent_.size()), wide_.push_back(false);
    }
    /// Those of them that could be narrow.
    void join(std::span<EdgePtr const> edges) {
        EdgePtr first = nullptr;
        for (auto* edge : edges) {
            if (!number_.contains(edge)) continue;
            if (!first) first = edge;
            auto a = root_of(first), b = root_of(edge);
            parent_[b] = a, wide_[a] = wide_[a] || wide_[b];
        }
    }
    void keep_wide(EdgePtr edge) {
        if (number_.contains(edge)) wide_[root_of(edge)] = true;
    }
    bool is_narrow(EdgePtr edge) { return number_.contains(edge) && !wide_[root_of(edge)]; }
};

std::vector<EdgePtr> edges_of(NodePtr node) {
    std::vector<EdgePtr> edges(node->inputs().begin(), node->inputs().end());
    edges.insert(edges.end(), node->outputs().begin(), node->outputs().end());
    return edges;
}

/// The program with inputs of bf16 widened, and, if `store`, results rounded.
template <class IsNarrow>
kernel::ElementwiseInfo with_casts(kernel::ElementwiseInfo const& program, IsNarrow&& is_narrow, bool store) {
    kernel::ElementwiseInfo result;
    std::vector<uint16_t> numbers;
    auto append = [&](ExprInstruction instruction) {
        result.code.push_back(instruction);
        return static_cast<uint16_t>(result.code.size() - 1);
    };
    for (auto instruction : program.code) {
        bool input = instruction.op == ExprOp::Input;
        for (int k = 0; !input && k < kernel::arity_of(instruction.op); ++k)
            instruction.operands[k] = numbers[instruction.operands[k]];
        bool widen = input && is_narrow(instruction.operands[0]);
        if (widen) instruction.dtype = DataType::BF16;
        auto number = append(instruction);
        numbers.push_back(widen ? append({ExprOp::Cast, DataType::F32, {number}}) : number);
    }
    for (auto number : program.outputs)
        result.outputs.push_back(store ? append({ExprOp::Cast, DataType::BF16, {numbers[number]}}) : numbers[number]);
    return result;
}

class Narrowing {
    PassContext const& context_;
    std::vector<NodePtr> nodes_;
    std::vector<EdgePtr> edges_;
    Alike alike_;

    void keep_wide(std::span<EdgePtr const> edges) {
        for (auto* edge : edges) alike_.keep_wide(edge);
    }

    /// Time of a convolution whose blocked operands are f32, or bf16.
    std::optional<double> time_of(NodePtr node, kernel::ConvInfo const& conv, bool narrow) const {
        auto const x = large_dims(node->input(0)), w = known_dims(node->input(1));
        auto const y = kernel::conv_output_dims(conv.window, x, w);
        std::vector<kernel::Operand> operands;
        for (size_t i = 0; i < node->inputs().size(); ++i) {
            auto* edge = node->input(i);
            bool residual = conv.epilogue.residual && i + 1 == node->inputs().size();
            operands.push_back(operand_of(edge, i == 0 ? x : residual ? y : known_dims(edge)));
        }
        operands.push_back(operand_of(node->output(), y));
        for (auto& operand : operands)
            if (narrow && operand.layout == Layout::Blocked16)
                operand.dtype = DataType::BF16, operand.layout = Layout::Blocked32;
        std::span const all(operands);
        auto const inputs = all.first(all.size() - 1), outputs = all.last(1);
        auto found = node->value.op->candidates(
            {inputs, outputs, "cpu", context_.isa, context_.threads, context_.options.precision});
        return fastest(found, inputs, outputs[0], context_.threads);
    }
    /// Algorithms of f32 may need fewer multiplications, or take windows that others decline.
    bool is_better_wide(NodePtr node, kernel::ConvInfo const& conv) const {
        auto wide = time_of(node, conv, false), narrow = time_of(node, conv, true);
        return wide && (!narrow || *narrow > *wide);
    }
    void visit_convolution(NodePtr node, bool may_round, bool residual, bool depthwise) {
        if (!may_round || !node->value.op->params().empty()) return keep_wide(edges_of(node));
        auto *x = node->input(0), *y = node->output();
        std::vector<EdgePtr> results{y};
        if (residual) results.push_back(node->inputs().back());
        if (depthwise) results.push_back(x);
        alike_.join(results);
    }
    /// Values of channels stay as they are.
    void visit_elementwise(NodePtr node) {
        if (has_one_position(node->output())) return keep_wide(edges_of(node));
        std::vector<EdgePtr> same(node->outputs().begin(), node->outputs().end());
        for (auto* input : node->inputs())
            if (has_one_position(input))
                alike_.keep_wide(input);
            else
                same.push_back(input);
        alike_.join(same);
    }
    void visit(NodePtr node) {
        auto const& op = *node->value.op;
        if (auto const* conv = info_of<kernel::ConvInfo>(op); conv && is_better_wide(node, *conv))
            return keep_wide(edges_of(node));
        if (auto const* conv = info_of<kernel::ConvInfo>(op))
            return visit_convolution(node, conv->may_round, conv->epilogue.residual,
                                     conv->group > 1 && node->input(1)->value.shape[1] == DimExpr(1));
        if (auto const* conv = info_of<kernel::ConvTransposeInfo>(op))
            return visit_convolution(node, conv->may_round, conv->epilogue.residual, false);
        if (info_of<kernel::ElementwiseInfo>(op)) return visit_elementwise(node);
        if (info_of<kernel::GlobalPoolInfo>(op)) return alike_.keep_wide(node->output());
        if (info_of<kernel::ReorderInfo>(op)) {
            // Results of the model are not rounded.
            if (node->output()->is_output()) alike_.keep_wide(node->input(0));
            return;
        }
        auto const all = edges_of(node);
        if (info_of<kernel::PoolInfo>(op) || info_of<kernel::ConcatInfo>(op) || info_of<kernel::SplitInfo>(op) ||
            info_of<kernel::SliceInfo>(op) || info_of<kernel::PadInfo>(op) || info_of<kernel::ResizeInfo>(op))
            return alike_.join(all);
        keep_wide(all);
    }

    struct Change {
        NodePtr node;
        std::shared_ptr<Operator const> before;
    };
    /// Gives operands their types, and programs their casts; returns what was changed.
    std::vector<Change> apply() {
        std::vector<Change> changes;
        for (auto* edge : edges_)
            if (alike_.is_narrow(edge)) edge->value.dtype = DataType::BF16, edge->value.layout = Layout::Blocked32;
        for (auto* node : nodes_) {
            auto const all = edges_of(node);
            if (std::none_of(all.begin(), all.end(), [&](EdgePtr edge) { return alike_.is_narrow(edge); })) continue;
            changes.push_back({node, node->value.op});
            if (auto const* program = info_of<kernel::ElementwiseInfo>(*node->value.op))
                node->value.op = make_operator(with_casts(
                    *program, [&](size_t i) { return alike_.is_narrow(node->input(i)); },
                    alike_.is_narrow(node->output())));
        }
        return changes;
    }
    void undo(std::span<Change const> changes) {
        for (auto* edge : edges_)
            if (alike_.is_narrow(edge)) edge->value.dtype = DataType::F32, edge->value.layout = Layout::Blocked16;
        for (auto const& [node, before] : changes) node->value.op = before;
    }

    /// Whether a kernel other than a reference takes the node as it is.
    bool has_kernel(NodePtr node) const {
        auto found = ask_kernels(node, context_, "cpu", nullptr);
        return std::any_of(found.kernels.begin(), found.kernels.end(),
                           [](auto const& kernel) { return kernel->id().find(":reference") == std::string::npos; });
    }

public:
    Narrowing(Model& model, PassContext const& context) : context_(context) {
        auto kept = nodes_kept_in_f32(model, context);
        for (auto* node : model.graph.topological()) {
            nodes_.push_back(node);
            for (auto* edge : node->outputs())
                if (is_blocked(edge) && !edge->value.keep && !edge->is_output())
                    edges_.push_back(edge), alike_.add(edge);
        }
        for (auto* node : nodes_)
            if (kept.contains(node))
                keep_wide(edges_of(node));
            else
                visit(node);
    }

    int run() {
        for (;;) {
            auto changes = apply();
            std::vector<NodePtr> refused;
            for (auto const& change : changes)
                if (!has_kernel(change.node)) refused.push_back(change.node);
            if (refused.empty()) return count();
            std::vector<bool> writes_narrow;
            for (auto* node : refused) writes_narrow.push_back(alike_.is_narrow(node->output()));
            undo(changes);
            // Without narrow results there may be a kernel for narrow operands.
            for (size_t i = 0; i < refused.size(); ++i)
                if (writes_narrow[i])
                    keep_wide(refused[i]->outputs());
                else
                    keep_wide(edges_of(refused[i]));
        }
    }
    int count() {
        auto narrow = std::count_if(edges_.begin(), edges_.end(), [&](EdgePtr edge) { return alike_.is_narrow(edge); });
        if (narrow)
            context_.note(std::to_string(narrow) + " of " + std::to_string(edges_.size()) +
                          " blocked tensors between layers are bf16");
        return static_cast<int>(narrow);
    }
};

}  // namespace

int narrow_blocks(Model& model, PassContext const& context) {
    auto const& options = context.options;
    if (options.device != "cpu" || options.compute != DataType::BF16 || context.isa < Isa::Avx512Bf16) return 0;
    return Narrowing(model, context).run();
}

}  // namespace refactor::computation
