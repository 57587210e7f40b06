#include "common/half.h"
#include "frontend/expression.h"
#include "frontend/operator.h"
#include "kernel/ops/movement.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"

namespace refactor::frontend {

using computation::make_operator;

std::vector<LowerContext::Edge> LowerContext::emit_all(Op op, std::vector<Edge> const& inputs,
                                                       std::vector<Spec> outputs) {
    auto name = emitted_ ? concat(name_, "/", emitted_) : name_;
    auto* node = graph_.insert({std::move(name), std::move(op)}, inputs, outputs.size());
    ++emitted_;
    std::vector<Edge> edges;
    for (size_t i = 0; i < outputs.size(); ++i) {
        auto* edge = node->output(i);
        edge->value.name = concat(outputs_.empty() ? name_ : outputs_[0].name, "/", emitted_, ".", i);
        edge->value.dtype = outputs[i].dtype, edge->value.shape = std::move(outputs[i].shape);
        edges.push_back(edge);
    }
    return edges;
}

LowerContext::Edge LowerContext::emit(Op op, std::vector<Edge> const& inputs, DataType dtype, Shape shape) {
    return emit_all(std::move(op), inputs, {{dtype, std::move(shape)}})[0];
}

void LowerContext::emit_output(Op op, std::vector<Edge> const& inputs) {
    set_output(0, emit(std::move(op), inputs, output().dtype, *output().shape));
}

LowerContext::Edge LowerContext::constant(DataType dtype, Dims const& dims,
                                          std::shared_ptr<mem_manager::Blob const> blob) {
    computation::Edge edge;
    edge.name = concat(outputs_.empty() ? name_ : outputs_[0].name, "/constant", ++emitted_);
    edge.dtype = dtype, edge.shape.assign(dims.begin(), dims.end()), edge.constant = std::move(blob);
    return graph_.add_source(std::move(edge));
}

LowerContext::Edge LowerContext::scalar(DataType dtype, double value) {
    auto blob = mem_manager::Blob::make(mem_manager::cpu_device(), storage_bytes(dtype, 1));
    convert(DataType::F64, &value, dtype, blob->data(), 1);
    if (dtype == DataType::F64) *static_cast<double*>(blob->data()) = value;
    return constant(dtype, {}, std::move(blob));
}

LowerContext::Edge LowerContext::floats(std::vector<float> const& values, Dims const& dims) {
    return constant(DataType::F32, dims, mem_manager::Blob::copy_of(values.data(), values.size() * sizeof(float)));
}

LowerContext::Edge LowerContext::reshape(Edge edge, Shape shape) {
    if (edge->value.shape == shape) return edge;
    auto dtype = edge->value.dtype;
    return emit(std::make_shared<computation::Reshape>(), {edge}, dtype, std::move(shape));
}

LowerContext::Edge LowerContext::transpose(Edge edge, std::vector<int64_t> const& perm) {
    Shape shape;
    for (auto axis : perm) shape.push_back(edge->value.shape[static_cast<size_t>(axis)]);
    auto dtype = edge->value.dtype;
    return emit(make_operator(kernel::TransposeInfo{Dims(perm.begin(), perm.end())}), {edge}, dtype, std::move(shape));
}

LowerContext::Edge LowerContext::cast(Edge edge, DataType dtype) {
    if (edge->value.dtype == dtype) return edge;
    Expression e;
    auto info = e.finish(e.cast(e.input(0, edge->value.dtype), dtype));
    auto shape = edge->value.shape;
    return emit(make_operator(std::move(info)), {edge}, dtype, std::move(shape));
}

}  // namespace refactor::frontend
