#include "cuda_plugin/dnn_graph.h"

#include <bit>
#include <cmath>

namespace refactor::cuda_plugin {

namespace {

/// The chain of operations that cuDNN's engines of fused attention recognise, in the order of its frontend
/// (github.com/NVIDIA/cudnn-frontend, docs/operations/Attention.md): product, scale, bias, causal mask, softmax,
/// product. The logarithm of the sums, which only training needs, belongs to the pattern.
class AttentionGraph {
    RefactorAttention const& a_;
    DnnGraph graph_;
    cudnnDataType_t type_;
    Sizes scores_, rows_;
    int64_t next_virtual_ = kFirstVirtualTensor;

    Descriptor scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) { return tensor(next_virtual_++, scores_, type, true); }
    Descriptor rows() { return tensor(next_virtual_++, rows_, CUDNN_DATA_FLOAT, true); }
    Descriptor operand(int64_t number, Sizes const& sizes, Sizes steps = {}) {
        graph_.operands.push_back(number);
        return tensor(number, sizes, type_, false, std::move(steps));
    }
    Descriptor number(cudnnDataType_t type, uint32_t bits) {
        Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
            .set(CUDNN_ATTR_TENSOR_DIMENSIONS, Sizes{1, 1, 1, 1})
            .set(CUDNN_ATTR_TENSOR_STRIDES, Sizes{1, 1, 1, 1})
            .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, kFirstNumber + static_cast<int64_t>(graph_.numbers.size()))
            .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{4})
            .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
        graph_.numbers.push_back(bits);
        return made.finished();
    }

    void add(Descriptor operation) { graph_.operations.push_back(std::move(operation)); }
    static Descriptor function(cudnnPointwiseMode_t mode, cudnnDataType_t computes = CUDNN_DATA_FLOAT,
                               int64_t axis = -1) {
        Descriptor made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
        made.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
            .set(CUDNN_ATTR_POINTWISE_MATH_PREC, computes);
        if (axis >= 0) made.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
        return made.finished();
    }
    void multiply(Descriptor const& a, Descriptor const& b, Descriptor const& c) {
        Descriptor product(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
        product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finished();
        Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
        operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
            .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
            .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c)
            .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, product);
        add(operation.finished());
    }
    Descriptor reduce(cudnnReduceTensorOp_t kind, Descriptor const& x) {
        Descriptor reduction(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
        reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &kind)
            .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
            .finished();
        auto y = rows();
        Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
        operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
            .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y)
            .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
        add(operation.finished());
        return y;
    }
    Descriptor combined(cudnnPointwiseMode_t mode, Descriptor const& x, Descriptor const* b, Descriptor y) {
        add(pointwise(function(mode), x, b, y));
        return y;
    }

    /// Negative infinity where the number of the key is above that of the query, moved so that the last ones agree.
    Descriptor masked(Descriptor const& x) {
        auto row = scores(CUDNN_DATA_INT32), column = scores(CUDNN_DATA_INT32);
        add(pointwise(function(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2), x, nullptr, row));
        add(pointwise(function(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3), x, nullptr, column));
        if (a_.keys != a_.queries) {
            auto shift = number(CUDNN_DATA_INT32, static_cast<uint32_t>(a_.keys - a_.queries));
            auto moved = scores(CUDNN_DATA_INT32);
            add(pointwise(function(CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32), row, &shift, moved));
            row = std::move(moved);
        }
        auto visible = scores(CUDNN_DATA_BOOLEAN), y = scores();
        add(pointwise(function(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN), row, &column, visible));
        auto none = number(CUDNN_DATA_FLOAT, std::bit_cast<uint32_t>(-INFINITY));
        add(pointwise(function(CUDNN_POINTWISE_BINARY_SELECT), x, &none, y, &visible));
        return y;
    }
    Descriptor softmax(Descriptor const& x) {
        auto largest = reduce(CUDNN_REDUCE_TENSOR_MAX, x);
        auto differences = combined(CUDNN_POINTWISE_SUB, x, &largest, scores());
        auto powers = combined(CUDNN_POINTWISE_EXP, differences, nullptr, scores());
        auto sum = reduce(CUDNN_REDUCE_TENSOR_ADD, powers);
        auto logarithm = combined(CUDNN_POINTWISE_LOG, sum, nullptr, rows());
        combined(CUDNN_POINTWISE_ADD, largest, &logarithm, rows());
        return combined(CUDNN_POINTWISE_DIV, powers, &sum, scores(type_));
    }

public:
    explicit AttentionGraph(RefactorAttention const& a)
        : a_(a),
          type_(type_of(a.dtype)),
          scores_{a.batch, a.heads, a.queries, a.keys},
          rows_{a.batch, a.heads, a.queries, 1} {}

    DnnGraph run() {
        auto steps = [](RefactorSteps const& s) { return Sizes{s.batch, s.head, s.row, 1}; };
        auto q = operand(0, {a_.batch, a_.heads, a_.queries, a_.depth}, steps(a_.q));
        auto k = operand(1, {a_.batch, a_.kv_heads, a_.depth, a_.keys}, {a_.k.batch, a_.k.head, 1, a_.k.row});
        auto v = operand(2, {a_.batch, a_.kv_heads, a_.keys, a_.value_depth}, steps(a_.v));
        auto products = scores();
        multiply(q, k, products);
        auto scale = number(CUDNN_DATA_FLOAT, std::bit_cast<uint32_t>(static_cast<float>(a_.scale)));
        auto x = combined(CUDNN_POINTWISE_MUL, products, &scale, scores());
        if (a_.bias[0]) {
            auto bias = operand(3, {a_.bias[0], a_.bias[1], a_.bias[2], a_.bias[3]});
            x = combined(CUDNN_POINTWISE_ADD, x, &bias, scores());
        }
        if (a_.causal) x = masked(x);
        auto weights = softmax(x);
        Sizes const result{a_.batch, a_.heads, a_.queries, a_.value_depth};
        multiply(weights, v, tensor(kOutputTensor, result, type_, false, steps(a_.y)));
        graph_.forbidden = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
        return std::move(graph_);
    }
};

}  // namespace

DnnGraph graph_of(RefactorAttention const& attention) { return AttentionGraph(attention).run(); }

}  // namespace refactor::cuda_plugin
