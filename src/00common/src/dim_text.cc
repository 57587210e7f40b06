#include "dim_node.h"

namespace refactor {
namespace {

using dim::Kind;

std::string text_of(DimExpr const& x, SymbolTable const& symbols) { return x.to_string(symbols); }

std::string call(char const* name, DimExpr const& a, DimExpr const& b, SymbolTable const& symbols) {
    return std::string(name) + '(' + text_of(a, symbols) + ", " + text_of(b, symbols) + ')';
}

/// A floor division whose numerator ends in `divisor - 1` reads as the ceiling division that it usually was.
std::string division(DimAtom const& atom, SymbolTable const& symbols) {
    auto divisor = atom.b.constant();
    if (divisor && *divisor > 1 && !atom.a.is_constant()) {
        auto const& last = atom.a.node()->terms.back();
        if (last.factors.empty() && last.coefficient == *divisor - 1)
            return call("ceil_div", atom.a - last.coefficient, atom.b, symbols);
    }
    return call("floor_div", atom.a, atom.b, symbols);
}

std::string text_of(DimAtom const& atom, SymbolTable const& symbols) {
    switch (atom.kind) {
        case Kind::Symbol:
            return atom.symbol < symbols.size() ? symbols.name(atom.symbol) : '?' + std::to_string(atom.symbol);
        case Kind::FloorDiv:
            return division(atom, symbols);
        case Kind::CeilDiv:
            return call("ceil_div", atom.a, atom.b, symbols);
        case Kind::Mod:
            return call("mod", atom.a, atom.b, symbols);
        case Kind::Min:
            return call("min", atom.a, atom.b, symbols);
        case Kind::Max:
            return call("max", atom.a, atom.b, symbols);
        case Kind::Broadcast:
            return call("bcast", atom.a, atom.b, symbols);
        case Kind::Product:
            return '(' + text_of(atom.a, symbols) + ")*(" + text_of(atom.b, symbols) + ')';
        default:
            return "overflow";
    }
}

}  // namespace

std::string DimExpr::to_string(SymbolTable const& symbols) const {
    if (!node_) return std::to_string(constant_);
    std::string text;
    for (auto const& term : node_->terms) {
        auto number = std::to_string(term.coefficient);
        bool negative = number[0] == '-';
        if (negative) number.erase(0, 1);
        text += text.empty() ? (negative ? "-" : "") : (negative ? " - " : " + ");
        bool one = number == "1" && !term.factors.empty();
        if (!one) text += number;
        for (size_t i = 0; i < term.factors.size(); ++i) {
            if (i || !one) text += '*';
            text += text_of(*term.factors[i], symbols);
        }
    }
    return text;
}

std::string to_string(Shape const& shape, SymbolTable const& symbols) {
    std::string text = "[";
    for (size_t i = 0; i < shape.size(); ++i) {
        if (i) text += ", ";
        text += shape[i].to_string(symbols);
    }
    return text + ']';
}

}  // namespace refactor
