#include "computation/operator.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/reduce.h"
#include "operator_def.h"

#include <algorithm>
#include <map>

// Einsum as transposes, sums and matrix products, operand by operand from the left.

namespace refactor::onnx {

namespace {

struct Equation {
    std::vector<std::string> inputs;  ///< labels of the axes
    std::string output;
};

bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

Inferred<std::string> labels_of(std::string_view text, bool unique) {
    std::string labels;
    for (char c : text) {
        if (c == ' ') continue;
        if (c == '.') return Err{unsupported("an ellipsis in the equation")};
        if (!is_label(c)) return Err{invalid("the equation has the character '", c, "'")};
        if (labels.find(c) != std::string::npos) {
            if (unique) return Err{invalid("the output of the equation names '", c, "' twice")};
            return Err{unsupported("the diagonal '", c, "' of one operand")};
        }
        labels += c;
    }
    return labels;
}

Inferred<Equation> parse(NodeView const& n) {
    auto text = n.text("equation", "");
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
        for (auto [label, count] : uses)
            if (count == 1) equation.output += label;
        return equation;
    }
    RG_TRY(output, labels_of(text.substr(arrow + 2), true));
    for (char c : output)
        if (!uses.contains(c)) return Err{invalid("the output of the equation names '", c, "', which no input has")};
    equation.output = std::move(output);
    return equation;
}

using Sizes = std::map<char, DimExpr>;

template <class Context>
Inferred<Sizes> sizes_of(Context const& c, Equation const& equation, SymbolTable const& symbols) {
    Sizes sizes;
    if (equation.inputs.size() != c.input_count())
        return Err{invalid("the equation has ", equation.inputs.size(), " operands, the node ", c.input_count())};
    for (size_t i = 0; i < c.input_count(); ++i) {
        auto const& shape = c.shape(i);
        auto const& labels = equation.inputs[i];
        if (labels.size() != shape.size())
            return Err{invalid("operand ", i, " has ", shape.size(), " axes, the equation names ", labels.size())};
        for (size_t k = 0; k < labels.size(); ++k) {
            auto [it, fresh] = sizes.emplace(labels[k], shape[k]);
            if (auto failure = frontend::expect_equal(shape[k], it->second,
                                                      frontend::concat("the size of '", labels[k], "'"), symbols))
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

bool contains(std::string const& labels, char c) { return labels.find(c) != std::string::npos; }

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
    return {c.emit(std::move(op), {term.edge}, c.dtype(0), shape_of(rest, sizes)), rest};
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
    auto m = element_count(shape_of(rows, sizes)), k = element_count(shape_of(inner, sizes)),
         n = element_count(shape_of(columns, sizes));
    auto with = [&](DimExpr const& x, DimExpr const& y) {
        auto shape = matrices;
        shape.push_back(x), shape.push_back(y);
        return shape;
    };
    auto* y = c.emit(computation::make_operator(kernel::MatMulInfo{}),
                     {c.reshape(a.edge, with(m, k)), c.reshape(b.edge, with(k, n))}, c.dtype(0), with(m, n));
    auto labels = batch + rows + columns;
    return {c.reshape(y, shape_of(labels, sizes)), labels};
}

Status infer_einsum(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(equation, parse(n));
    RG_TRY_STATUS(sizes, sizes_of(c, equation, c.symbols()));
    return c.set(0, c.dtype(0), shape_of(equation.output, sizes));
}

Status lower_einsum(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(equation, parse(n));
    RG_TRY_STATUS(sizes, sizes_of(c, equation, c.symbols()));
    Term result{c.edge(0), equation.inputs[0]};
    for (size_t i = 1; i < c.input_count(); ++i) {
        auto later = equation.output;
        for (size_t k = i + 1; k < c.input_count(); ++k) later += equation.inputs[k];
        result = multiply(c, std::move(result), {c.edge(i), equation.inputs[i]}, later, sizes);
    }
    result = arrange(c, sum_out(c, std::move(result), equation.output, sizes), equation.output);
    c.set_output(0, result.edge);
    return std::nullopt;
}

}  // namespace

void define_einsum(Definitions& all) {
    all.push_back({.name = "Einsum",
                   .since = 12,
                   .inputs = {1, kVariadic},
                   .types = {{kNumbers, 'T'}},
                   .attributes = {{"equation", AttributeKind::String, true}},
                   .infer = infer_einsum,
                   .lower = lower_einsum});
}

}  // namespace refactor::onnx
