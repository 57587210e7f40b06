#include "passes/expand_quantization.h"

#include "kernel/ops/quantize.h"
#include "passes/expression.h"

namespace refactor::computation {

using kernel::ExprOp;

namespace {

bool is_wide_float(DataType type) { return type == DataType::F32 || type == DataType::F16 || type == DataType::BF16; }
bool is_f8(DataType type) { return is_float(type) && bits_of(type) == 8 && type != DataType::F8E8M0; }
bool is_byte_integer(DataType type) { return is_integer(type) && bits_of(type) >= 8; }

/// A program of several operands that is being written.
class Writer {
    Graph& graph_;
    NodePtr node_;
    Expression expression_;

public:
    Writer(Graph& graph, NodePtr node) : graph_(graph), node_(node) {}

    uint16_t load(EdgePtr edge) {
        expression_.inputs.push_back(edge);
        return expression_.append({.op = ExprOp::Input,
                                   .dtype = edge->value.dtype,
                                   .operands = {static_cast<uint16_t>(expression_.inputs.size() - 1)}});
    }
    /// Scales or zero points, shaped so that they meet `axis` of x by broadcasting.
    uint16_t load_along(EdgePtr edge, int64_t axis) {
        auto const& x = node_->input(0)->value.shape;
        Shape shape;
        if (element_count(edge->value.shape) != DimExpr(1)) {
            shape.assign(x.size() - static_cast<size_t>(axis), DimExpr(1));
            shape[0] = edge->value.shape[0];
        }
        if (shape == edge->value.shape) return load(edge);
        auto* reshape = graph_.insert({node_->value.name + "/reshape", std::make_shared<Reshape>()}, {edge});
        reshape->output()->value = {edge->value.name + "/reshaped", edge->value.dtype, shape, {}, nullptr, false};
        return load(reshape->output());
    }
    uint16_t cast(uint16_t x, DataType type) {
        if (expression_.code[x].dtype == type) return x;
        return expression_.append({.op = ExprOp::Cast, .dtype = type, .operands = {x}});
    }
    uint16_t apply(ExprOp op, uint16_t a, uint16_t b = 0, uint16_t c = 0) {
        return expression_.append({.op = op, .dtype = expression_.code[a].dtype, .operands = {a, b, c}});
    }
    uint16_t constant(double value) {
        return expression_.append({.op = ExprOp::Constant, .dtype = DataType::F32, .value = value});
    }
    void finish(uint16_t result) {
        expression_.outputs = {result};
        expression_.store(graph_, node_);
    }
};

bool expand_quantize(Graph& graph, NodePtr node, kernel::QuantizeInfo const& info) {
    auto *x = node->input(0), *scale = node->input(1), *zero = node->input(2);
    auto to = node->output()->value.dtype;
    bool plain = is_byte_integer(to) || (is_f8(to) && info.saturate && !zero);
    if (!plain || info.granularity.block || scale->value.dtype == DataType::F8E8M0) return false;
    Writer w(graph, node);
    auto quotient = w.apply(ExprOp::Div, w.cast(w.load(x), info.precision),
                            w.cast(w.load_along(scale, info.granularity.axis), info.precision));
    if (is_f8(to)) {
        w.finish(w.cast(quotient, to));
        return true;
    }
    auto rounded = w.apply(ExprOp::Round, w.cast(quotient, DataType::F32));
    if (zero) rounded = w.apply(ExprOp::Add, rounded, w.cast(w.load_along(zero, info.granularity.axis), DataType::F32));
    double high = (1 << (bits_of(to) - is_signed(to))) - 1, low = is_signed(to) ? -high - 1 : 0;
    w.finish(w.cast(w.apply(ExprOp::Clip, rounded, w.constant(low), w.constant(high)), to));
    return true;
}

bool expand_dequantize(Graph& graph, NodePtr node, kernel::DequantizeInfo const& info) {
    auto *x = node->input(0), *scale = node->input(1), *zero = node->input(2);
    auto from = x->value.dtype, to = node->output()->value.dtype;
    bool plain = (is_byte_integer(from) || is_f8(from)) && is_wide_float(to) && !(zero && bits_of(from) > 16);
    if (!plain || info.granularity.block || scale->value.dtype == DataType::F8E8M0) return false;
    Writer w(graph, node);
    auto value = w.cast(w.load(x), DataType::F32);
    if (zero) value = w.apply(ExprOp::Sub, value, w.cast(w.load_along(zero, info.granularity.axis), DataType::F32));
    value = w.apply(ExprOp::Mul, value, w.cast(w.load_along(scale, info.granularity.axis), DataType::F32));
    w.finish(w.cast(value, to));
    return true;
}

}  // namespace

int expand_quantization(Model& model, PassContext const&) {
    int expanded = 0;
    for (auto* node : model.graph.topological()) {
        if (auto const* quantize = info_of<kernel::QuantizeInfo>(*node->value.op))
            expanded += expand_quantize(model.graph, node, kernel::QuantizeInfo(*quantize));
        else if (auto const* dequantize = info_of<kernel::DequantizeInfo>(*node->value.op))
            expanded += expand_dequantize(model.graph, node, kernel::DequantizeInfo(*dequantize));
    }
    return expanded;
}

}  // namespace refactor::computation
