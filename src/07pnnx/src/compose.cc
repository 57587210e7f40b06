#include "call.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "mem_manager/blob.h"

#include <algorithm>
#include <numeric>

// Semantic operators as functions of edges.

namespace refactor::pnnx {

Edge Call::unary(ExprOp op, Edge x, double alpha, double beta) {
    return map({x}, [&](Expression& e, auto const& v) {
        return e.unary(op, v[0], static_cast<float>(alpha), static_cast<float>(beta));
    });
}

Edge Call::binary(ExprOp op, Edge a, Edge b) {
    return map({a, b}, [&](Expression& e, auto const& v) { return e.binary(op, v[0], v[1]); });
}

Edge Call::integers_edge(std::vector<int64_t> const& values) {
    return context_.constant(DataType::I64, {static_cast<int64_t>(values.size())},
                             mem_manager::Blob::copy_of(values.data(), values.size() * sizeof(int64_t)));
}

Edge Call::filled(DataType dtype, double value, Shape shape) { return expand(scalar(dtype, value), std::move(shape)); }

Edge Call::transpose(Edge x, std::vector<int64_t> const& perm) {
    bool same = true;
    for (size_t i = 0; i < perm.size(); ++i) same = same && perm[i] == static_cast<int64_t>(i);
    return same ? x : context_.transpose(x, perm);
}

Edge Call::swap_axes(Edge x, size_t a, size_t b) {
    std::vector<int64_t> perm(rank(x));
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm[a], perm[b]);
    return transpose(x, perm);
}

Edge Call::expand(Edge x, Shape shape) {
    if (Call::shape(x) == shape) return x;
    return emit(kernel::ExpandInfo{}, {x}, type_of(x), std::move(shape));
}

Edge Call::unsqueeze(Edge x, size_t axis) {
    auto target = shape(x);
    target.insert(target.begin() + static_cast<std::ptrdiff_t>(axis), DimExpr(1));
    return reshape(x, std::move(target));
}

Edge Call::squeeze(Edge x, size_t axis) { return reshape(x, frontend::without_axes(shape(x), {axis}, false)); }

Edge Call::slice(Edge x, size_t axis, DimExpr const& start, DimExpr const& end, int64_t step) {
    // pnnx writes 2^31 - 1 for "to the end", the rules want more than any size.
    auto far = [](DimExpr const& bound) { return bound == DimExpr(kEnd) ? DimExpr(INT64_MAX) : bound; };
    auto range = take(frontend::slice_rule(shape(x)[axis], far(start), far(end), step));
    for (auto const& condition : range.conditions)
        expect_equal(condition.actual, condition.expected, frontend::concat(condition.what, " along axis ", axis));
    auto target = shape(x);
    if (range.start == DimExpr(0) && range.size == target[axis] && step == 1) return x;
    target[axis] = range.size;
    kernel::SliceInfo info{Dims(rank(x), 1)};
    info.steps[axis] = step;
    std::vector<DimExpr> starts(rank(x));
    starts[axis] = range.start;
    return emit(std::move(info), {x}, type_of(x), std::move(target), std::move(starts));
}

Edge Call::concat(std::vector<Edge> const& parts, size_t axis) {
    if (parts.size() == 1) return parts[0];
    auto target = shape(parts[0]);
    for (size_t k = 1; k < parts.size(); ++k) {
        auto const& other = shape(parts[k]);
        if (other.size() != target.size() || type_of(parts[k]) != type_of(parts[0]))
            refuse_invalid("tensors of shapes ", text_of(target), " and ", text_of(other), ", types ",
                           name_of(type_of(parts[0])), " and ", name_of(type_of(parts[k])), ", cannot be joined");
        for (size_t i = 0; i < other.size(); ++i)
            if (i != axis) expect_equal(other[i], target[i], "a size of a joined tensor");
        target[axis] = target[axis] + other[axis];
    }
    return emit(kernel::ConcatInfo{static_cast<int64_t>(axis)}, parts, type_of(parts[0]), std::move(target));
}

Edge Call::gather(Edge x, Edge indices, size_t axis) {
    auto const& from = shape(x);
    Shape target(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axis));
    target.insert(target.end(), shape(indices).begin(), shape(indices).end());
    target.insert(target.end(), from.begin() + static_cast<std::ptrdiff_t>(axis) + 1, from.end());
    if (type_of(indices) != DataType::I32) indices = cast(indices, DataType::I64);
    return emit(kernel::GatherInfo{static_cast<int64_t>(axis)}, {x, indices}, type_of(x), std::move(target));
}

Edge Call::reduce(kernel::ReduceKind kind, Edge x, std::vector<size_t> const& axes, bool keep) {
    auto target = frontend::without_axes(shape(x), axes, keep);
    if (axes.empty()) return x;
    kernel::ReduceInfo info{kind, Dims(axes.begin(), axes.end())};
    return emit(std::move(info), {x}, type_of(x), std::move(target));
}

Edge Call::softmax(Edge x, size_t axis, bool log) {
    kernel::SoftmaxInfo info;
    info.axis = static_cast<int64_t>(axis), info.log = log;
    return emit(info, {x}, type_of(x), shape(x));
}

Edge Call::matmul(Edge a, Edge b, bool trans_b, Edge bias) {
    if (rank(a) == 0 || rank(b) == 0) refuse_invalid("a scalar is no operand of a matrix product");
    bool vector_a = rank(a) == 1, vector_b = rank(b) == 1;
    if (vector_a) a = unsqueeze(a, 0);
    if (vector_b) b = unsqueeze(b, trans_b ? 0 : 1);
    if (type_of(a) != type_of(b))
        refuse_invalid("operands of a matrix product are ", name_of(type_of(a)), " and ", name_of(type_of(b)));
    auto const &x = shape(a), &w = shape(b);
    auto columns = trans_b ? w[w.size() - 2] : w.back(), inner = trans_b ? w.back() : w[w.size() - 2];
    expect_equal(inner, x.back(), "the inner size of the second operand");
    auto full = broadcast({Shape(x.begin(), x.end() - 2), Shape(w.begin(), w.end() - 2)});
    auto result = full;
    full.push_back(x[x.size() - 2]), full.push_back(columns);
    if (!vector_a) result.push_back(x[x.size() - 2]);
    if (!vector_b) result.push_back(columns);
    kernel::MatMulInfo info;
    info.trans_b = trans_b;
    std::vector<Edge> inputs{a, b};
    if (bias) {
        expect_rank(bias, 1, 1, "the bias");
        expect_equal(shape(bias)[0], columns, "the size of the bias");
        info.epilogue.bias = true, inputs.push_back(bias);
    }
    return reshape(emit(info, inputs, type_of(a), std::move(full)), std::move(result));
}

Edge Call::range(DimExpr const& start, DimExpr const& step, DimExpr const& length) {
    return emit(kernel::RangeInfo{}, {}, DataType::I64, {length}, {start, step});
}

Edge Call::size_edge(Scalar const& value, DataType dtype) {
    if (auto number = value.constant()) return scalar(dtype, *number);
    auto whole = [&](DimExpr const& size) {
        return reshape(emit(kernel::ShapeValuesInfo{}, {}, DataType::I64, {DimExpr(1)}, {size}), {});
    };
    auto* numerator = cast(whole(value.numerator()), dtype);
    if (value.denominator() == DimExpr(1)) return numerator;
    return binary(ExprOp::Div, numerator, cast(whole(value.denominator()), dtype));
}

}  // namespace refactor::pnnx
