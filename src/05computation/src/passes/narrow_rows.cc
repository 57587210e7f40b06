#include "passes/narrow_rows.h"

#include "common/cpu_features.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/reduce.h"
#include "passes/lower_precision.h"
#include "passes/narrowing.h"

#include <algorithm>
#include <array>

namespace refactor::computation {

namespace {

using kernel::Layout;

/// Elsewhere products of f32 may be faster than rounded ones.
bool rounds_fast(Isa isa) { return isa >= Isa::Avx512Amx || (isa == Isa::Avx512Bf16 && cpu_features().fast_bf16); }

/// Decides about rows.
class Rows {
    PassContext const& context_;
    Narrowing narrowing_;

    /// Whether there is a kernel that rounds results of the node, and stores them.
    static bool stores_rounded(NodePtr node) {
        auto const& op = *node->value.op;
        if (auto const* product = info_of<kernel::MatMulInfo>(op))
            return product->may_round && !product->epilogue.residual;
        if (auto const* attention = info_of<kernel::AttentionInfo>(op)) return attention->may_round;
        if (info_of<kernel::ElementwiseInfo>(op)) return node->outputs().size() == 1;
        return info_of<kernel::LayerNormInfo>(op) || op.is_alias();
    }
    /// Operands of which nothing but rounded numbers is read.
    static std::span<EdgePtr const> rounded_operands(NodePtr node) {
        auto const& op = *node->value.op;
        auto const* product = info_of<kernel::MatMulInfo>(op);
        auto const* attention = info_of<kernel::AttentionInfo>(op);
        bool rounds = op.is_alias() || (product && product->may_round) || (attention && attention->may_round);
        return node->inputs().first(!rounds ? 0 : attention ? 3 : 1);
    }
    /// Those that cannot be narrow decide for all.
    void keep_alike(std::span<EdgePtr const> edges) {
        narrowing_.join(edges);
        if (!std::all_of(edges.begin(), edges.end(), [&](EdgePtr edge) { return narrowing_.is_narrow(edge); }))
            narrowing_.keep_wide(edges);
    }
    void visit(NodePtr node, bool kept) {
        auto const& op = *node->value.op;
        auto rounded = kept ? std::span<EdgePtr const>() : rounded_operands(node);
        for (size_t i = 0; i < node->inputs().size(); ++i)
            if (i >= rounded.size()) narrowing_.keep_wide(node->input(i));
        if (op.is_alias()) keep_alike(std::array{node->input(0), node->output()});
        if (info_of<kernel::AttentionInfo>(op)) keep_alike(rounded);
        for (size_t i = 0; i < node->outputs().size(); ++i)
            if (kept || i > 0 || !stores_rounded(node)) narrowing_.keep_wide(node->outputs()[i]);
    }

public:
    Rows(Model& model, PassContext const& context)
        : context_(context), narrowing_(model, context, Layout::Plain, Layout::Plain) {
        auto kept = nodes_kept_in_f32(model, context);
        for (auto* node : narrowing_.nodes()) visit(node, kept.contains(node));
    }
    int run() {
        auto narrow = narrowing_.run();
        if (narrow) context_.note(std::to_string(narrow) + " tensors between products are bf16");
        return narrow;
    }
};

}  // namespace

int narrow_rows(Model& model, PassContext const& context) {
    auto const& options = context.options;
    if (options.device != "cpu" || options.compute != DataType::BF16 || !rounds_fast(context.isa)) return 0;
    return Rows(model, context).run();
}

}  // namespace refactor::computation
