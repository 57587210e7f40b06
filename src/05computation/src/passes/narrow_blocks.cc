#include "passes/narrow_blocks.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/conv_chain.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/movement.h"
#include "passes/estimates.h"
#include "passes/lower_precision.h"
#include "passes/narrowing.h"

#include <algorithm>

namespace refactor::computation {

namespace {

using kernel::Layout;

bool has_one_position(EdgePtr edge) {
    auto const& shape = edge->value.shape;
    return std::all_of(shape.begin() + std::min<ptrdiff_t>(2, std::ssize(shape)), shape.end(),
                       [](auto const& size) { return size == DimExpr(1); });
}

/// Decides about blocked tensors.
class Blocks {
    PassContext const& context_;
    AssumedSizes sizes_;
    Narrowing narrowing_;

    /// Time of a convolution whose blocked operands are f32, or bf16.
    std::optional<double> time_of(NodePtr node, kernel::ConvInfo const& conv, bool narrow) const {
        auto const x = sizes_.dims_of(node->input(0)), w = known_dims(node->input(1));
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
        if (!may_round || !node->value.op->params().empty()) return narrowing_.keep_wide(edges_of(node));
        auto *x = node->input(0), *y = node->output();
        std::vector<EdgePtr> results{y};
        if (residual) results.push_back(node->inputs().back());
        if (depthwise) results.push_back(x);
        narrowing_.join(results);
    }
    /// Values of channels stay as they are.
    void visit_elementwise(NodePtr node) {
        if (has_one_position(node->output())) return narrowing_.keep_wide(edges_of(node));
        std::vector<EdgePtr> same(node->outputs().begin(), node->outputs().end());
        for (auto* input : node->inputs())
            if (has_one_position(input))
                narrowing_.keep_wide(input);
            else
                same.push_back(input);
        narrowing_.join(same);
    }
    void visit(NodePtr node) {
        auto const& op = *node->value.op;
        if (auto const* conv = info_of<kernel::ConvInfo>(op); conv && is_better_wide(node, *conv))
            return narrowing_.keep_wide(edges_of(node));
        if (auto const* conv = info_of<kernel::ConvInfo>(op))
            return visit_convolution(node, conv->may_round, conv->epilogue.residual,
                                     conv->group > 1 && node->input(1)->value.shape[1] == DimExpr(1));
        if (auto const* conv = info_of<kernel::ConvTransposeInfo>(op))
            return visit_convolution(node, conv->may_round, conv->epilogue.residual, false);
        if (info_of<kernel::ElementwiseInfo>(op)) return visit_elementwise(node);
        if (info_of<kernel::GlobalPoolInfo>(op)) return narrowing_.keep_wide(node->output());
        if (info_of<kernel::ReorderInfo>(op)) {
            // Results of the model are not rounded.
            if (node->output()->is_output()) narrowing_.keep_wide(node->input(0));
            return;
        }
        auto const all = edges_of(node);
        if (info_of<kernel::PoolInfo>(op) || info_of<kernel::ConcatInfo>(op) || info_of<kernel::SplitInfo>(op) ||
            info_of<kernel::SliceInfo>(op) || info_of<kernel::PadInfo>(op) || info_of<kernel::ResizeInfo>(op))
            return narrowing_.join(all);
        narrowing_.keep_wide(all);
    }

public:
    Blocks(Model& model, PassContext const& context)
        : context_(context), sizes_(model), narrowing_(model, context, Layout::Blocked16, Layout::Blocked32) {
        auto kept = nodes_kept_in_f32(model, context);
        for (auto* node : narrowing_.nodes())
            if (kept.contains(node))
                narrowing_.keep_wide(edges_of(node));
            else
                visit(node);
    }
    int run() {
        auto narrow = narrowing_.run();
        if (narrow)
            context_.note(std::to_string(narrow) + " of " + std::to_string(narrowing_.edges().size()) +
                          " blocked tensors between layers are bf16");
        return narrow;
    }
};

}  // namespace

int narrow_blocks(Model& model, PassContext const& context) {
    auto const& options = context.options;
    if (options.device != "cpu" || options.compute != DataType::BF16 || context.isa < Isa::Avx512Bf16) return 0;
    return Blocks(model, context).run();
}

}  // namespace refactor::computation
