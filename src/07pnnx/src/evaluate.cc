#include "formula.h"

// Terms with a value: sizes stay symbolic numbers, tensors go into one elementwise program.

namespace refactor::pnnx {

namespace {

/// size(@k, axis)
Scalar size_of(Call& c, Term const& term) {
    auto const &of = term.items[0], &which = term.items[1];
    if (!of.is(Term::Kind::Operand) || !which.is(Term::Kind::Int))
        refuse_unsupported("the size ", to_string(term), ", expected an input and a number");
    auto const& tensor = c.operand(static_cast<size_t>(of.integer));
    return Scalar::of_int((*tensor.shape)[c.axis(which.integer, tensor.rank())]);
}

/// The number that an operand carries, if it is a known integer scalar.
std::optional<Scalar> carried(Call& c, Term const& term) {
    auto const& tensor = c.operand(static_cast<size_t>(term.integer));
    if (tensor.rank() || !is_integer(tensor.dtype)) return std::nullopt;
    auto values = c.known_values(static_cast<size_t>(term.integer));
    if (!values || values->size() != 1) return std::nullopt;
    return Scalar::of_int((*values)[0]);
}

Formula::Operand formula_of(Call& c, Formula& f, Term const& term) {
    if (!term.is(Term::Kind::Function)) return f.of(c.evaluate(term));
    if (term.text == "size") return f.of(size_of(c, term));
    std::vector<Formula::Operand> operands;
    for (auto const& operand : term.items) operands.push_back(formula_of(c, f, operand));
    return f.apply(term.text, std::move(operands));
}

}  // namespace

Item Call::evaluate(Term const& term) {
    switch (term.kind) {
        case Term::Kind::None:
            return {};
        case Term::Kind::Bool:
            return {term.integer != 0};
        case Term::Kind::Int:
            return {Scalar::of_int(term.integer)};
        case Term::Kind::Float:
            return {Scalar::of_float(term.number)};
        case Term::Kind::Text:
            return {term.text};
        case Term::Kind::Operand: {
            if (auto number = carried(*this, term)) return {*number};
            return {edge_of(term)};
        }
        case Term::Kind::List: {
            std::vector<Item> items;
            for (auto const& inner : term.items) items.push_back(evaluate(inner));
            return {std::move(items)};
        }
        case Term::Kind::Function:
            break;
    }
    Formula f(*this);
    auto result = formula_of(*this, f, term);
    if (result.number) return {*result.number};
    return {f.finish(result)};
}

}  // namespace refactor::pnnx
