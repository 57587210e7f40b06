#include "frontend/einsum.h"

#include "frontend/expression.h"
#include "frontend/shape_rules.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"

#include <algorithm>
#include <map>

namespace refactor::frontend {

namespace {

struct Equation {
    std::vector<std::string> inputs;  ///< labels of the axes
    std::string output;
};

bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Stands for the axes of an ellipsis until their number is known.
constexpr char kEllipsis = '.';
/// Labels of these axes, counted from the last.
constexpr char kFirstEllipsisLabel = 1, kEllipsisLabels = 31;

bool contains(std::string const& labels, char c) { return labels.find(c) != std::string::npos; }

Inferred<std::string> labels_of(std::string_view text, bool unique) {
    std::string labels;
    for (size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == ' ') continue;
        if (c == '.') {
            if (text.substr(i, 3) != "..." || contains(labels, kEllipsis))
                return Err{invalid("the equation has \"", text, "\", expected at most one \"...\" in a term")};
            i += 2;
        } else if (!is_label(c)) {
            return Err{invalid("the equation has the character '", c, "'")};
        } else if (unique && contains(labels, c)) {
            return Err{invalid("the output of the equation names '", c, "' twice")};
        }
        labels += c;
    }
    return labels;
}

Inferred<Equation> parse(std::string_view text) {
    auto arrow = text.find("->");
    auto left = text.substr(0, arrow);
    Equation equation;
    std::map<char, int> uses;
    for (size_t at = 0; at <= left.size();) {
        auto end = std::min(left.find(',', at), left.size());
        RG_TRY(labels, labels_of(left.substr(at, end - at), false));
        for (char c : labels) ++uses[c];
        equation.inputs.push_back(std::move(labels));
        at = end + 1;
    }
    if (arrow == std::string_view::npos) {
        if (uses.contains(kEllipsis)) equation.output += kEllipsis;
        for (auto [label, count] : uses)
            if (count == 1 && label != kEllipsis) equation.output += label;
        return equation;
    }
    RG_TRY(output, labels_of(text.substr(arrow + 2), true));
    for (char c : output)
        if (!uses.contains(c) && c != kEllipsis)
            return Err{invalid("the output of the equation names '", c, "', which no input has")};
    equation.output = std::move(output);
    return equation;
}

/// Replaces an ellipsis by the labels of `axes` axes.
std::string expand_ellipsis(std::string const& labels, size_t axes) {
    std::string expanded;
    for (char c : labels) {
        if (c != kEllipsis)
            expanded += c;
        else
            for (auto i = axes; i-- > 0;) expanded += static_cast<char>(kFirstEllipsisLabel + static_cast<char>(i));
    }
    return expanded;
}
bool of_ellipsis(char label) { return label < kFirstEllipsisLabel + kEllipsisLabels; }

/// Gives every operand as many labels as axes, and the output those of the widest ellipsis.
Status name_axes(std::vector<Shape> const& operands, Equation& equation) {
    if (equation.inputs.size() != operands.size())
        return invalid("the equation has ", equation.inputs.size(), " operands, the node ", operands.size());
    size_t widest = 0;
    for (size_t i = 0; i < operands.size(); ++i) {
        auto& labels = equation.inputs[i];
        auto named = labels.size() - contains(labels, kEllipsis), rank = operands[i].size();
        if (named > rank || (named < rank && named == labels.size()))
            return invalid("operand ", i, " has ", rank, " axes, the equation names ", named);
        if (rank - named > kEllipsisLabels) return unsupported("an ellipsis of ", rank - named, " axes");
        widest = std::max(widest, rank - named);
        labels = expand_ellipsis(labels, rank - named);
    }
    if (widest && !contains(equation.output, kEllipsis))
        return invalid("the output of the equation has no \"...\" for the ", widest, " axes of the inputs'");
    equation.output = expand_ellipsis(equation.output, widest);
    return std::nullopt;
}

using Sizes = std::map<char, DimExpr>;

/// Whether an axis may have another size than its label: one of an ellipsis, or, as in numpy, one of size 1 that is no
/// part of a diagonal.
bool broadcasts(std::string const& labels, size_t axis, DimExpr const& size, DimExpr const& full) {
    bool single = std::count(labels.begin(), labels.end(), labels[axis]) == 1;
    return of_ellipsis(labels[axis]) || (single && (size == DimExpr(1) || full == DimExpr(1)));
}

/// The size of every label; axes of an ellipsis broadcast, and those of size 1. `c`, if not null, is told what has to
/// be equal.
Inferred<Sizes> sizes_of(std::vector<Shape> const& operands, Equation const& equation, SymbolTable const& symbols,
                         InferContext* c) {
    Sizes sizes;
    for (size_t i = 0; i < operands.size(); ++i) {
        auto const& shape = operands[i];
        auto const& labels = equation.inputs[i];
        for (size_t k = 0; k < labels.size(); ++k) {
            auto [it, fresh] = sizes.emplace(labels[k], shape[k]);
            if (fresh) continue;
            if (broadcasts(labels, k, shape[k], it->second)) {
                auto joined = broadcast(it->second, shape[k]);
                if (!joined)
                    return Err{invalid("the sizes ", it->second.to_string(symbols), " and ",
                                       shape[k].to_string(symbols), " of a label do not broadcast")};
                it->second = *joined;
                continue;
            }
            auto what = concat("the size of '", labels[k], "'");
            if (auto failure =
                    c ? c->expect_equal(shape[k], it->second, what) : expect_equal(shape[k], it->second, what, symbols))
                return Err{*failure};
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

/// Keeps one axis of each label that occurs twice: elements off the diagonal become zero and are summed away.
Term take_diagonals(LowerContext& c, Term term, Sizes const& sizes) {
    for (size_t first = 0; first < term.labels.size(); ++first)
        for (auto second = term.labels.find(term.labels[first], first + 1); second != std::string::npos;
             second = term.labels.find(term.labels[first], first + 1)) {
            auto const& size = sizes.at(term.labels[first]);
            auto rank = term.labels.size();
            auto dtype = term.edge->value.dtype;
            Expression e;
            auto same = e.binary(kernel::ExprOp::Equal, e.input(1, DataType::I64), e.input(2, DataType::I64));
            auto value = e.select(same, e.input(0, dtype), e.constant(dtype, 0));
            auto* masked = c.emit(computation::make_operator(e.finish(value)),
                                  {term.edge, counter(c, size, first, rank), counter(c, size, second, rank)}, dtype,
                                  shape_of(term.labels, sizes));
            term.labels.erase(second, 1);
            kernel::ReduceInfo sum{kernel::ReduceKind::Sum, {static_cast<int64_t>(second)}};
            term.edge = c.emit(computation::make_operator(sum), {masked}, dtype, shape_of(term.labels, sizes));
        }
    return term;
}

/// Drops axes that broadcast, and spreads those of an ellipsis of which it is not known.
Term join_axes(LowerContext& c, Term term, Sizes const& sizes) {
    std::string labels;
    Shape have, want;
    for (size_t i = 0; i < term.labels.size(); ++i) {
        auto const &size = term.edge->value.shape[i], &full = sizes.at(term.labels[i]);
        bool joins = !(size == full) && broadcasts(term.labels, i, size, full);
        if (joins && size == DimExpr(1)) continue;
        labels += term.labels[i], have.push_back(size), want.push_back(joins ? full : size);
    }
    if (labels.size() != term.labels.size()) term = {c.reshape(term.edge, have), labels};
    if (have != want)
        term.edge = c.emit(computation::make_operator(kernel::ExpandInfo{}), {term.edge}, term.edge->value.dtype, want);
    return term;
}

Term operand(LowerContext& c, LowerContext::Edge edge, std::string labels, Sizes const& sizes) {
    return take_diagonals(c, join_axes(c, {edge, std::move(labels)}, sizes), sizes);
}

/// Sums over every label that is not in `keep`.
Term sum_out(LowerContext& c, Term term, std::string const& keep, Sizes const& sizes) {
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
    return {c.emit(std::move(op), {term.edge}, term.edge->value.dtype, shape_of(rest, sizes)), rest};
}

/// One product: labels of both that are needed later are batch axes, those that are not are summed.
Term multiply(LowerContext& c, Term a, Term b, std::string const& later, Sizes const& sizes) {
    a = sum_out(c, a, later + b.labels, sizes), b = sum_out(c, b, later + a.labels, sizes);
    std::string batch, inner, rows, columns;
    for (char label : a.labels) (contains(b.labels, label) ? contains(later, label) ? batch : inner : rows) += label;
    for (char label : b.labels)
        if (!contains(a.labels, label)) columns += label;
    a = arrange(c, a, batch + rows + inner), b = arrange(c, b, batch + inner + columns);
    auto matrices = shape_of(batch, sizes);
    auto labels = batch + rows + columns;
    if (inner.empty()) {
        auto x = shape_of(batch + rows, sizes), y = matrices;
        x.insert(x.end(), columns.size(), DimExpr(1)), y.insert(y.end(), rows.size(), DimExpr(1));
        for (auto const& size : shape_of(columns, sizes)) y.push_back(size);
        auto dtype = a.edge->value.dtype;
        Expression e;
        auto value = e.binary(kernel::ExprOp::Mul, e.input(0, dtype), e.input(1, dtype));
        return {c.emit(computation::make_operator(e.finish(value)), {c.reshape(a.edge, x), c.reshape(b.edge, y)}, dtype,
                       shape_of(labels, sizes)),
                labels};
    }
    auto m = element_count(shape_of(rows, sizes)), k = element_count(shape_of(inner, sizes)),
         n = element_count(shape_of(columns, sizes));
    auto with = [&](DimExpr const& x, DimExpr const& y) {
        auto shape = matrices;
        shape.push_back(x), shape.push_back(y);
        return shape;
    };
    auto* y = c.emit(computation::make_operator(kernel::MatMulInfo{}),
                     {c.reshape(a.edge, with(m, k)), c.reshape(b.edge, with(k, n))}, a.edge->value.dtype, with(m, n));
    return {c.reshape(y, shape_of(labels, sizes)), labels};
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
        result = multiply(c, std::move(result), operand(c, operands[i], names.inputs[i], sizes), later, sizes);
    }
    return arrange(c, sum_out(c, std::move(result), names.output, sizes), names.output).edge;
}

}  // namespace refactor::frontend
