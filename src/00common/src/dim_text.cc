#include "dim_node.h"

namespace refactor {
namespace {

using dim::Kind;

// Parts of an expression that are shared are written each time: the text may be exponentially longer than the
// expression.
constexpr size_t kLongest = 1000;

class Writer {
    SymbolTable const& symbols_;
    std::string text_;

    void call(char const* name, DimExpr const& a, DimExpr const& b) {
        text_ += name, text_ += '(';
        add(a);
        text_ += ", ";
        add(b);
        text_ += ')';
    }

    /// A floor division whose numerator ends in `divisor - 1` reads as the ceiling division that it usually was.
    void division(DimAtom const& atom) {
        auto divisor = atom.b.constant();
        if (divisor && *divisor > 1 && !atom.a.is_constant()) {
            auto const& last = atom.a.node()->terms.back();
            if (last.factors.empty() && last.coefficient == *divisor - 1)
                return call("ceil_div", atom.a - last.coefficient, atom.b);
        }
        call("floor_div", atom.a, atom.b);
    }

    void product(DimAtom const& atom) {
        text_ += '(';
        add(atom.a);
        text_ += ")*(";
        add(atom.b);
        text_ += ')';
    }

    void add(DimAtom const& atom) {
        switch (atom.kind) {
            case Kind::Symbol:
                text_ += atom.symbol < symbols_.size() ? symbols_.name(atom.symbol) : '?' + std::to_string(atom.symbol);
                return;
            case Kind::FloorDiv:
                return division(atom);
            case Kind::CeilDiv:
                return call("ceil_div", atom.a, atom.b);
            case Kind::Mod:
                return call("mod", atom.a, atom.b);
            case Kind::Min:
                return call("min", atom.a, atom.b);
            case Kind::Max:
                return call("max", atom.a, atom.b);
            case Kind::Broadcast:
                return call("bcast", atom.a, atom.b);
            case Kind::Product:
                return product(atom);
            default:
                text_ += "overflow";
        }
    }

public:
    explicit Writer(SymbolTable const& symbols) : symbols_(symbols) {}

    void add(DimExpr const& x) {
        if (text_.size() > kLongest) return;
        if (x.is_constant()) {
            text_ += std::to_string(*x.constant());
            return;
        }
        bool begin = true;
        for (auto const& term : x.node()->terms) {
            if (text_.size() > kLongest) return;
            auto number = std::to_string(term.coefficient);
            bool negative = number[0] == '-';
            if (negative) number.erase(0, 1);
            text_ += begin ? (negative ? "-" : "") : (negative ? " - " : " + ");
            begin = false;
            bool one = number == "1" && !term.factors.empty();
            if (!one) text_ += number;
            for (size_t i = 0; i < term.factors.size(); ++i) {
                if (i || !one) text_ += '*';
                add(*term.factors[i]);
            }
        }
    }

    std::string take() {
        if (text_.size() > kLongest) text_.resize(kLongest), text_ += "…";
        return std::move(text_);
    }
};

}  // namespace

std::string DimExpr::to_string(SymbolTable const& symbols) const {
    Writer writer(symbols);
    writer.add(*this);
    return writer.take();
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
