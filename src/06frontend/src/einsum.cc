#include "frontend/einsum.h"

#include "einsum_equation.h"
#include "frontend/expression.h"
#include "frontend/shape_rules.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"

#include <algorithm>
#include <map>

namespace refactor::frontend {

using namespace einsum;

namespace {

using Sizes = std::map<char, DimExpr>;

/// The size of a label of which two operands have the sizes `a` and `b`, one of which may be 1, as in numpy. A number
/// other than 1 is the size itself, so that what has it already (weights) stays as it is.
std::optional<DimExpr> join(DimExpr const& a, DimExpr const& b) {
    if (a == b || b == DimExpr(1)) return a;
    if (a == DimExpr(1)) return b;
    if (a.is_constant() != b.is_constant()) return a.is_constant() ? a : b;
    return broadcast(a, b);
}

/// The sizes of one operand; axes of the same label have to be equal.
Inferred<Sizes> own_sizes(Shape const& shape, std::string const& labels, SymbolTable const& symbols, InferContext* c) {
    Sizes sizes;
    for (size_t k = 0; k < labels.size(); ++k) {
        auto [it, fresh] = sizes.emplace(labels[k], shape[k]);
        if (fresh) continue;
        auto what = concat("the size of '", labels[k], "'");
        if (auto failure =
                c ? c->expect_equal(shape[k], it->second, what) : expect_equal(shape[k], it->second, what, symbols))
            return Err{*failure};
    }
    return sizes;
}

/// The size of every label. `c`, if not null, is told what has to be equal or 1.
Inferred<Sizes> sizes_of(std::vector<Shape> const& operands, Equation const& equation, SymbolTable const& symbols,
                         InferContext* c) {
    Sizes sizes;
    for (size_t i = 0; i < operands.size(); ++i) {
        RG_TRY(own, own_sizes(operands[i], equation.inputs[i], symbols, c));
        for (auto const& [label, size] : own) {
            auto [it, fresh] = sizes.emplace(label, size);
            if (fresh) continue;
            auto what = of_ellipsis(label) ? std::string("the size of an axis of \"...\"")
                                           : concat("the size of '", label, "'");
            auto joined = join(it->second, size);
            if (!joined && !of_ellipsis(label))
                if (auto failure = expect_equal(size, it->second, what, symbols)) return Err{*failure};
            if (!joined)
                return Err{invalid("the sizes ", it->second.to_string(symbols), " and ", size.to_string(symbols),
                                   " of a label do not broadcast")};
            auto const& other = *joined == size ? it->second : size;
            if (c && joined->is_constant() && !other.is_constant()) c->expect({{}, what, other, *joined, true});
            it->second = *joined;
        }
    }
    return sizes;
}

Shape shape_of(std::string const& labels, Sizes const& sizes) {
    Shape shape;
    for (char c : labels) shape.push_back(sizes.at(c));
    return shape;
}

struct Term {
    LowerContext::Edge edge;
    std::string labels;

    DimExpr const& size(char label) const { return edge->value.shape[labels.find(label)]; }
    Shape shape(std::string const& some) const {
        Shape found;
        for (char label : some) found.push_back(size(label));
        return found;
    }
};

Term arrange(LowerContext& c, Term term, std::string const& labels) {
    if (term.labels == labels) return term;
    std::vector<int64_t> perm;
    for (char label : labels) perm.push_back(static_cast<int64_t>(term.labels.find(label)));
    return {c.transpose(term.edge, perm), labels};
}

/// 0, 1, … along axis `axis` of a tensor of `rank` axes.
LowerContext::Edge counter(LowerContext& c, DimExpr const& size, size_t axis, size_t rank) {
    auto* list =
        c.emit(computation::make_operator(kernel::RangeInfo{}, {DimExpr(0), DimExpr(1)}), {}, DataType::I64, {size});
    Shape shape(rank - axis, DimExpr(1));
    shape[0] = size;
    return c.reshape(list, std::move(shape));
}

/// Keeps the first axis of each label that occurs twice: elements off the diagonal become zero and are summed away.
Term take_diagonals(LowerContext& c, Term term) {
    for (size_t first = 0; first < term.labels.size(); ++first)
        for (auto second = term.labels.find(term.labels[first], first + 1); second != std::string::npos;
             second = term.labels.find(term.labels[first], first + 1)) {
            auto shape = term.edge->value.shape;
            auto dtype = term.edge->value.dtype;
            Expression e;
            auto same = e.binary(kernel::ExprOp::Equal, e.input(1, DataType::I64), e.input(2, DataType::I64));
            auto value = e.select(same, e.input(0, dtype), e.constant(dtype, 0));
            auto row = counter(c, shape[first], first, shape.size());
            auto column = counter(c, shape[second], second, shape.size());
            auto* masked = c.emit(computation::make_operator(e.finish(value)), {term.edge, row, column}, dtype, shape);
            auto axis = static_cast<int64_t>(second);
            term.labels.erase(second, 1), shape.erase(shape.begin() + axis);
            kernel::ReduceInfo sum{kernel::ReduceKind::Sum, {axis}};
            term.edge = c.emit(computation::make_operator(sum), {masked}, dtype, std::move(shape));
        }
    return term;
}

/// Drops axes of size 1 of labels that are larger elsewhere.
Term drop_ones(LowerContext& c, Term term, Sizes const& sizes) {
    std::string labels;
    for (char label : term.labels)
        if (!(term.size(label) == DimExpr(1)) || sizes.at(label) == DimExpr(1)) labels += label;
    if (labels == term.labels) return term;
    return {c.reshape(term.edge, term.shape(labels)), labels};
}

Term operand(LowerContext& c, LowerContext::Edge edge, std::string labels, Sizes const& sizes) {
    return drop_ones(c, take_diagonals(c, {edge, std::move(labels)}), sizes);
}

/// Repeats the axes `labels` until they have the sizes `full`.
Term spread(LowerContext& c, Term term, std::string const& labels, Sizes const& full) {
    auto shape = term.edge->value.shape;
    for (char label : labels) shape[term.labels.find(label)] = full.at(label);
    if (shape == term.edge->value.shape) return term;
    auto op = computation::make_operator(kernel::ExpandInfo{});
    return {c.emit(std::move(op), {term.edge}, term.edge->value.dtype, std::move(shape)), term.labels};
}

/// Sums over every label that is not in `keep`.
Term sum_out(LowerContext& c, Term term, std::string const& keep) {
    Dims axes;
    std::string rest;
    for (size_t i = 0; i < term.labels.size(); ++i) {
        if (contains(keep, term.labels[i]))
            rest += term.labels[i];
        else
            axes.push_back(static_cast<int64_t>(i));
    }
    if (axes.empty()) return term;
    auto op = computation::make_operator(kernel::ReduceInfo{kernel::ReduceKind::Sum, axes});
    return {c.emit(std::move(op), {term.edge}, term.edge->value.dtype, term.shape(rest)), rest};
}

/// The sizes of the labels of a product.
Sizes joined_sizes(Term const& a, Term const& b) {
    Sizes sizes;
    for (char label : a.labels)
        sizes.emplace(label, contains(b.labels, label) ? *join(a.size(label), b.size(label)) : a.size(label));
    for (char label : b.labels) sizes.emplace(label, b.size(label));
    return sizes;
}

/// Whether `b` gives the rows of the product and `a` its columns, which follow each other in memory: of the labels that
/// one operand alone has, `a` has the last in the order of what follows. Weights stay the second operand.
bool comes_first(Term const& a, Term const& b, std::string const& later) {
    auto last = [&](Term const& term, Term const& other) {
        size_t found = 0;
        for (size_t i = 0; i < later.size(); ++i)
            if (later.find(later[i]) == i && contains(term.labels, later[i]) && !contains(other.labels, later[i]))
                found = i + 1;
        return found;
    };
    return !b.edge->value.constant && last(b, a) && last(b, a) < last(a, b);
}

/// One product: labels of both that are needed later are batch axes, those that are not are summed.
Term multiply(LowerContext& c, Term a, Term b, std::string const& later) {
    a = sum_out(c, a, later + b.labels), b = sum_out(c, b, later + a.labels);
    if (comes_first(a, b, later)) std::swap(a, b);
    auto sizes = joined_sizes(a, b);
    std::string batch, inner, rows, columns;
    for (char label : a.labels) (contains(b.labels, label) ? contains(later, label) ? batch : inner : rows) += label;
    for (char label : b.labels)
        if (!contains(a.labels, label)) columns += label;
    a = arrange(c, spread(c, a, inner, sizes), batch + rows + inner);
    b = arrange(c, spread(c, b, inner, sizes), batch + inner + columns);
    auto labels = batch + rows + columns;
    auto dtype = a.edge->value.dtype;
    if (inner.empty()) {
        auto x = a.edge->value.shape, y = b.shape(batch);
        x.insert(x.end(), columns.size(), DimExpr(1)), y.insert(y.end(), rows.size(), DimExpr(1));
        for (auto const& size : b.shape(columns)) y.push_back(size);
        Expression e;
        auto value = e.binary(kernel::ExprOp::Mul, e.input(0, dtype), e.input(1, dtype));
        return {c.emit(computation::make_operator(e.finish(value)), {c.reshape(a.edge, x), c.reshape(b.edge, y)}, dtype,
                       shape_of(labels, sizes)),
                labels};
    }
    auto m = element_count(shape_of(rows, sizes)), k = element_count(shape_of(inner, sizes)),
         n = element_count(shape_of(columns, sizes));
    auto with = [](Shape shape, DimExpr const& x, DimExpr const& y) {
        shape.push_back(x), shape.push_back(y);
        return shape;
    };
    auto* x = c.reshape(a.edge, with(a.shape(batch), m, k));
    auto* y = c.reshape(b.edge, with(b.shape(batch), k, n));
    auto* z =
        c.emit(computation::make_operator(kernel::MatMulInfo{}), {x, y}, dtype, with(shape_of(batch, sizes), m, n));
    return {c.reshape(z, shape_of(labels, sizes)), labels};
}

struct Problem {
    Equation equation;
    Sizes sizes;
};

Inferred<Problem> analyse(std::string_view text, std::vector<Shape> const& operands, SymbolTable const& symbols,
                          InferContext* c = nullptr) {
    RG_TRY(equation, parse(text));
    if (auto failure = name_axes(operands, equation)) return Err{*failure};
    RG_TRY(sizes, sizes_of(operands, equation, symbols, c));
    return Problem{std::move(equation), std::move(sizes)};
}

}  // namespace

Inferred<Shape> einsum_rule(std::string_view equation, std::vector<Shape> const& operands, InferContext& c) {
    RG_TRY(problem, analyse(equation, operands, c.symbols(), &c));
    return shape_of(problem.equation.output, problem.sizes);
}

Inferred<LowerContext::Edge> lower_einsum(LowerContext& c, std::string_view equation,
                                          std::vector<LowerContext::Edge> const& operands) {
    std::vector<Shape> shapes;
    for (auto* edge : operands) shapes.push_back(edge->value.shape);
    RG_TRY(problem, analyse(equation, shapes, c.symbols()));
    auto const& [names, sizes] = problem;
    auto result = operand(c, operands[0], names.inputs[0], sizes);
    for (size_t i = 1; i < operands.size(); ++i) {
        auto later = names.output;
        for (size_t k = i + 1; k < operands.size(); ++k) later += names.inputs[k];
        result = multiply(c, std::move(result), operand(c, operands[i], names.inputs[i], sizes), later);
    }
    return arrange(c, sum_out(c, std::move(result), names.output), names.output).edge;
}

}  // namespace refactor::frontend
