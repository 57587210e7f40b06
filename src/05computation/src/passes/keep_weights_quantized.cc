#include "passes/keep_weights_quantized.h"

#include "kernel/ops/elementwise.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "passes/any_float.h"
#include "passes/constants.h"
#include "passes/few_rows.h"
#include "passes/quantized_factor.h"
#include "passes/small_weights.h"

#include <map>

namespace refactor::computation {

namespace {

using I = kernel::BlockMatMulInfo;

/// Rows from which on a product of floats is a few percent faster than one that widens bytes.
constexpr int64_t kManyRows = 64;
/// Elements of a block where columns have one scale; where rows of A are rounded, sums of bytes fit into kernels'
/// words.
constexpr int64_t kMost = 1024, kMostOfRounded = 128;

class Keeping {
    Graph& graph_;
    PassContext const& context_;
    /// Numbers, scales, zero points, transposed, alpha.
    using Key = std::tuple<EdgePtr, EdgePtr, EdgePtr, bool, float>;
    std::map<Key, std::vector<EdgePtr>> operands_{};
    std::map<EdgePtr, std::optional<QuantizedMatrix>> matrices_{};
    std::map<EdgePtr, EdgePtr> bytes_{};
    int products_ = 0, in_floats_ = 0;

    void leave(NodePtr node, std::string const& why) const {
        context_.note('"' + node->value.name + "\" dequantises its weights: " + why);
    }

    static bool is_real(DataType type) { return is_float(type) && bits_of(type) >= 16; }
    /// Whether it makes floats of one type those of another, of no fewer than 16 bits.
    static bool is_cast(NodePtr node) {
        auto const* info = node ? info_of<kernel::ElementwiseInfo>(*node->value.op) : nullptr;
        return info && info->code.size() == 2 && info->outputs == std::vector<uint16_t>{1} &&
               info->code[1].op == kernel::ExprOp::Cast && is_real(info->code[0].dtype) && is_real(info->code[1].dtype);
    }
    std::optional<QuantizedMatrix> const& matrix_of(EdgePtr edge) {
        auto [it, fresh] = matrices_.try_emplace(edge);
        if (fresh) it->second = quantized_matrix(graph_, edge);
        if (it->second && it->second->rows * it->second->columns < kWorthStoringSmall) it->second.reset();
        return it->second;
    }
    /// What a product multiplies by, if it is a quantised matrix that is worth a word.
    std::optional<QuantizedMatrix> const& factor_of(EdgePtr b, bool& transposed) {
        while (true) {
            auto const* transpose = producer_info<kernel::TransposeInfo>(b);
            bool swaps = transpose && transpose->perm == Dims{1, 0};
            if (!swaps && !is_cast(b->producer())) break;
            transposed = transposed != swaps, b = b->producer()->input(0);
        }
        return matrix_of(b);
    }
    static std::string refuse(NodePtr node, kernel::MatMulInfo const& product, QuantizedFactor const& factor) {
        if (node->input(0)->value.dtype == DataType::F64) return "A is of f64";
        if (product.trans_a) return "A is transposed";
        if (node->input(0)->value.shape.size() < 2) return "A is a vector";
        if (product.epilogue.residual || product.epilogue.activation.kind != kernel::ActivationKind::None)
            return "more is computed with it";
        if (product.epilogue.bias && element_count(node->input(2)->value.shape) != DimExpr(factor.info.n))
            return "its bias is no number for each column";
        return {};
    }
    EdgePtr wide(EdgePtr edge) {
        return edge->value.dtype == DataType::F32 ? edge : insert_cast(graph_, edge, DataType::F32);
    }
    /// The node that computes what `node` did, in f32.
    void replace(NodePtr node, std::shared_ptr<Operator const> op, std::vector<EdgePtr> const& inputs) {
        auto const value = node->output()->value;
        auto* made = graph_.insert({node->value.name, std::move(op)}, inputs);
        auto* result = made->output();
        result->value = value;
        if (value.dtype != DataType::F32) {
            result->value.dtype = DataType::F32, result->value.name += "/f32", result->value.keep = false;
            result = insert_cast(graph_, result, value.dtype);
            result->value = value;
        }
        graph_.replace_all_uses(node->output(), result);
        graph_.erase_unused(node);
    }
    /// Whether a product rounds its rows to multiply integers of so many bits.
    bool rounds_rows(int32_t bits) const {
        kernel::BlockMatMulInfo info;
        info.bits = bits;
        return context_.options.round_products && kernel::rounds_rows(info, context_.isa);
    }
    static Key key(QuantizedFactor const& f, float alpha) {
        return {f.matrix.data, f.matrix.scale, f.matrix.zero, f.transposed, alpha};
    }
    /// Bytes around zero with a scale for each column.
    void keep_bytes(NodePtr node, kernel::MatMulInfo info, QuantizedFactor const& factor) {
        auto& known = operands_[key(factor, 0)];
        if (known.empty()) known = {signed_bytes(graph_, factor), column_scales(graph_, factor)};
        info.trans_b = factor.transposed, info.scaled = true;
        std::vector<EdgePtr> inputs{wide(node->input(0)), known[0], known[1]};
        if (info.epilogue.bias) inputs.push_back(wide(node->input(2)));
        replace(node, make_operator(info), inputs);
    }
    void keep_blocks(NodePtr node, kernel::MatMulInfo const& product, QuantizedFactor const& factor) {
        auto& known = operands_[key(factor, product.alpha)];
        if (known.empty()) known = block_operands(graph_, factor, product.alpha);
        auto inputs = known;
        inputs[I::kA] = wide(node->input(0));
        if (product.epilogue.bias) inputs[I::kBias] = wide(node->input(2));
        replace(node, make_operator(factor.info), inputs);
    }

    EdgePtr gathered(NodePtr node, EdgePtr table) {
        auto shape = node->input(1)->value.shape;
        shape.insert(shape.end(), table->value.shape.begin() + 1, table->value.shape.end());
        auto* rows = graph_.insert({node->value.name, node->value.op}, {table, node->input(1)})->output();
        rows->value = {table->value.name + "/rows", table->value.dtype, std::move(shape), {}, nullptr, false};
        return rows;
    }
    /// A constant of a number for each row, as a matrix.
    EdgePtr as_column(EdgePtr constant) {
        auto const& value = constant->value;
        return add_constant(graph_, value.name + "/column", value.dtype, {value.shape[0], 1}, value.constant);
    }

public:
    Keeping(Graph& graph, PassContext const& context) : graph_(graph), context_(context) {}

    bool keep(NodePtr node, kernel::MatMulInfo const& product) {
        bool transposed = product.trans_b;
        auto const& matrix = factor_of(node->input(1), transposed);
        if (!matrix || product.scaled) return false;
        auto rows = rows_of(node->input(0)->value.shape).constant().value_or(0);
        bool rounds = rounds_rows(bits_of(matrix->type()));
        if (bits_of(matrix->type()) == 8 && rows >= kManyRows && !rounds) return false;
        auto factor = quantized_factor(*matrix, transposed, rounds ? kMostOfRounded : kMost);
        auto why = factor ? refuse(node, product, *factor) : factor.error();
        if (!why.empty()) return leave(node, why), false;
        if (factor->is_symmetric && !rounds)
            keep_bytes(node, product, *factor);
        else
            keep_blocks(node, product, *factor);
        ++products_, in_floats_ += !rounds;
        return true;
    }
    void report() const {
        if (!products_) return;
        auto text = "products that read weights quantised alone: " + std::to_string(products_);
        bool may_ask = context_.options.device == "cpu" && !context_.options.round_products;
        if (in_floats_) text += ", in f32: " + std::to_string(in_floats_);
        context_.note(may_ask ? text + "; precision=\"int8\" rounds what they multiply, too" : text);
    }
    bool keep(NodePtr node, kernel::GatherInfo const& gather) {
        if (gather.axis != 0) return false;
        auto const& found = matrix_of(node->input(0));
        if (!found) return false;
        auto const& m = *found;
        bool of_rows = !m.has_one_scale() && m.granularity.axis == 0;
        if (of_rows && m.granularity.block) return leave(node, "blocks of scales are along the rows"), false;
        bool gathers = of_rows || m.granularity.block;
        auto scales_of = [&](EdgePtr edge) {
            if (!edge || !gathers) return edge;
            return gathered(node, of_rows ? as_column(edge) : edge);
        };
        auto& bytes = bytes_[m.data];
        if (!bytes) bytes = in_bytes(graph_, m.data);
        auto* zero = m.zero ? in_bytes(graph_, m.zero) : nullptr;
        kernel::DequantizeInfo info{m.granularity};
        info.granularity.axis = static_cast<int64_t>(node->input(1)->value.shape.size());
        if (of_rows) info.granularity.block = m.columns;
        std::vector<EdgePtr> inputs{gathered(node, bytes), scales_of(m.scale), scales_of(zero)};
        auto* made = graph_.insert({node->value.name, make_operator(info)}, inputs);
        made->output()->value = node->output()->value;
        graph_.replace_all_uses(node->output(), made->output());
        graph_.erase_unused(node);
        return true;
    }
};

}  // namespace

int keep_weights_quantized(Model& model, PassContext const& context) {
    if (context.options.weights == DataType::F32) return 0;
    Keeping keeping(model.graph, context);
    int changes = 0;
    for (auto* node : model.graph.topological()) {
        if (!node->alive()) continue;
        if (auto const* product = info_of<kernel::MatMulInfo>(*node->value.op))
            changes += keeping.keep(node, kernel::MatMulInfo(*product));
        else if (auto const* gather = info_of<kernel::GatherInfo>(*node->value.op))
            changes += keeping.keep(node, kernel::GatherInfo(*gather));
    }
    keeping.report();
    return changes;
}

}  // namespace refactor::computation
