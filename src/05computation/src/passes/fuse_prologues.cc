#include "passes/fuse_prologues.h"

#include "kernel/ops/normalized_matmul.h"
#include "passes/few_rows.h"
#include "passes/insert_step.h"

namespace refactor::computation {

namespace {

/// Elements of a row that the threads of a block keep in registers.
constexpr int64_t kMostInner = 8192;
/// Products of few rows that normalise them each for itself, instead of a launch.
constexpr size_t kMostProducts = 3;

bool is_constant(EdgePtr edge, Shape const& shape) { return edge->value.constant && edge->value.shape == shape; }

/// A normalisation that a product could begin with: over the last axis, of few rows, by constants for each column.
kernel::LayerNormInfo const* norm_of(NodePtr node) {
    auto const* info = info_of<kernel::LayerNormInfo>(*node->value.op);
    if (!info || info->residual || node->outputs().size() != 1 || node->output()->value.keep) return nullptr;
    auto const *x = node->input(0), *y = node->output();
    auto const& shape = x->value.shape;
    auto type = x->value.dtype;
    auto rank = static_cast<int64_t>(shape.size());
    bool narrow = type == DataType::F32 || type == DataType::F16 || type == DataType::BF16;
    if (!narrow || y->value.dtype != type || info->axis != rank - 1) return nullptr;
    auto inner = shape.back().constant();
    if (!inner || *inner > kMostInner || rows_of(shape).constant().value_or(1) > kFewRows) return nullptr;
    Shape columns{shape.back()};
    bool constants = is_constant(node->input(1), columns) && (!info->has_bias || is_constant(node->input(2), columns));
    return constants ? info : nullptr;
}

bool takes_rows(NodePtr node, EdgePtr rows) {
    auto const* product = info_of<kernel::MatMulInfo>(*node->value.op);
    if (!product || product->trans_a || !product->trans_b) return false;
    auto const& b = node->input(1)->value;
    auto inputs = node->inputs();
    return b.constant && b.shape.size() == 2 && inputs[0] == rows &&
           std::count(inputs.begin(), inputs.end(), rows) == 1;
}

/// Collects the products that read `rows`, behind reshapes that keep its columns or not. Whether there is nothing else.
bool collect(EdgePtr rows, std::vector<NodePtr>& products) {
    if (rows->value.keep || rows->is_output()) return false;
    for (auto const& use : rows->consumers()) {
        if (takes_rows(use.node, rows)) {
            products.push_back(use.node);
        } else if (dynamic_cast<Reshape const*>(use.node->value.op.get())) {
            auto* reshaped = use.node->output();
            if (reshaped->value.shape.empty() || reshaped->value.shape.back() != rows->value.shape.back() ||
                !collect(reshaped, products))
                return false;
        } else {
            return false;
        }
    }
    return true;
}

void begin_with(Graph& graph, NodePtr product, NodePtr norm, kernel::LayerNormInfo const& info) {
    auto* x = norm->input(0);
    auto const& shape = product->input(0)->value.shape;
    if (x->value.shape != shape) x = insert_step(graph, x, "rows", std::make_shared<Reshape>(), {x}, shape);
    std::vector<EdgePtr> inputs(product->inputs().begin(), product->inputs().end());
    inputs[0] = x;
    for (size_t i = 1; i < norm->inputs().size(); ++i) inputs.push_back(norm->input(i));
    kernel::NormalizedMatMulInfo fused{info, *info_of<kernel::MatMulInfo>(*product->value.op)};
    fused.norm.axis = static_cast<int64_t>(shape.size()) - 1;
    auto* made = graph.insert({product->value.name, make_operator(fused)}, inputs);
    made->output()->value = product->output()->value;
    graph.replace_all_uses(product->output(), made->output());
    graph.erase(product);
}

}  // namespace

int fuse_prologues(Model& model, PassContext const& context) {
    if (context.options.device == "cpu") return 0;
    int changes = 0;
    for (auto* node : model.graph.topological()) {
        auto const* info = norm_of(node);
        if (!info) continue;
        std::vector<NodePtr> products;
        bool known = rows_of(node->output()->value.shape).constant().has_value();
        if (!collect(node->output(), products) || products.empty() || products.size() > (known ? kMostProducts : 1))
            continue;
        for (auto* product : products) begin_with(model.graph, product, node, *info);
        ++changes;
    }
    return changes;
}

}  // namespace refactor::computation
