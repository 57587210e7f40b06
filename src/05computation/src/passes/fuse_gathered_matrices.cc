#include "passes/fuse_gathered_matrices.h"

#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"

namespace refactor::computation {

namespace {

/// Matrices [indices…, A, B] of a stack [E, A, B].
struct Gathered {
    EdgePtr stack = nullptr, indices = nullptr;

    explicit Gathered(EdgePtr matrices) {
        auto* node = matrices->producer();
        if (!node || matrices->value.keep || !matrices->only_consumer() || matrices->value.dtype != DataType::F32)
            return;
        auto const* gather = info_of<kernel::GatherInfo>(*node->value.op);
        auto const* gather_nd = info_of<kernel::GatherNDInfo>(*node->value.op);
        bool first_axis =
            gather ? gather->axis == 0
                   : gather_nd && gather_nd->batch_dims == 0 && node->input(1)->value.shape.back() == DimExpr(1);
        if (first_axis && node->input(0)->value.shape.size() == 3) stack = node->input(0), indices = node->input(1);
    }
};

/// Shapes [leading…, 1, K] and [leading…, K, 1], with the same leading sizes as the matrices.
bool are_rows(Shape const& rows, Shape const& matrices, bool column) {
    auto rank = rows.size();
    if (rank != matrices.size() || rank < 3 || rows[rank - 1 - !column] != DimExpr(1)) return false;
    return std::equal(rows.begin(), rows.end() - 2, matrices.begin());
}

bool fuse(Graph& graph, NodePtr product) {
    auto const* info = info_of<kernel::MatMulInfo>(*product->value.op);
    if (!info || info->scaled || info->alpha != 1 || info->epilogue != kernel::Epilogue{}) return false;
    for (int side : {1, 0}) {
        auto *matrices = product->input(side), *rows = product->input(1 - side);
        Gathered gathered(matrices);
        bool column = side == 1 ? info->trans_a : !info->trans_b;
        if (!gathered.stack || !are_rows(rows->value.shape, matrices->value.shape, column)) continue;
        bool trans_w = side == 1 ? info->trans_b : !info->trans_a;
        auto* made = graph.insert({product->value.name, make_operator(kernel::GatherMatMulInfo{trans_w})},
                                  {rows, gathered.stack, gathered.indices});
        made->output()->value = product->output()->value;
        graph.replace_all_uses(product->output(), made->output());
        graph.erase_unused(product);
        return true;
    }
    return false;
}

}  // namespace

int fuse_gathered_matrices(Model& model, PassContext const& context) {
    if (context.options.device != "cpu") return 0;
    int changes = 0;
    for (auto* node : model.graph.topological()) changes += fuse(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
