#include "common/dim_expr.h"

#include "dim_node.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace refactor {
namespace {

using dim::Kind;

// A product of sums is expanded up to this many terms. Shapes stay below a dozen; the bound keeps powers of sums from
// exploding.
constexpr size_t kMaxTerms = 256;

/// The value under bindings, of each operation once: what is shared in an expression may be shared by what shares it.
class Evaluation {
    std::span<int64_t const> bindings_;
    std::unordered_map<DimAtom const*, int64_t> done_;

    int64_t of_atom(DimAtom const& atom) {
        if (atom.kind == Kind::Symbol) return atom.symbol < bindings_.size() ? bindings_[atom.symbol] : kUnbound;
        if (atom.kind == Kind::Invalid) return kUnbound;
        if (auto found = done_.find(&atom); found != done_.end()) return found->second;
        auto a = (*this)(atom.a), b = (*this)(atom.b);
        return done_[&atom] = dim::apply(dim::op_of(atom.kind), a, b);
    }

public:
    explicit Evaluation(std::span<int64_t const> bindings) : bindings_(bindings) {}

    /// `kUnbound` if there is no value. The order of operations is that of `DimProgram::add`, so that both overflow
    /// alike.
    int64_t operator()(DimExpr const& x) {
        if (x.is_constant()) return *x.constant();
        int64_t sum = 0;
        bool first = true;
        for (auto const& term : x.node()->terms) {
            int64_t product = 1;
            for (auto const& factor : term.factors) product = dim::apply(dim::Op::Mul, product, of_atom(*factor));
            product = dim::apply(dim::Op::Mul, product, term.coefficient);
            sum = first ? product : dim::apply(dim::Op::Add, sum, product);
            first = false;
        }
        return sum;
    }
};

class Substitution {
    std::span<int64_t const> bindings_;
    int64_t more_;  ///< added to symbols that are not bound
    std::unordered_map<DimAtom const*, DimExpr> done_;

    DimExpr rebuild(AtomPtr const& factor) {
        auto const& atom = *factor;
        if (atom.kind == Kind::Symbol) {
            bool bound = atom.symbol < bindings_.size() && bindings_[atom.symbol] != kUnbound;
            return bound ? DimExpr(bindings_[atom.symbol]) : dim::from_atom(factor) + more_;
        }
        if (atom.kind == Kind::Invalid) return dim::invalid();
        auto a = (*this)(atom.a), b = (*this)(atom.b);
        switch (atom.kind) {
            case Kind::FloorDiv:
                return floor_div(a, b);
            case Kind::CeilDiv:
                return ceil_div(a, b);
            case Kind::Mod:
                return mod(a, b);
            case Kind::Min:
                return min(a, b);
            case Kind::Max:
                return max(a, b);
            case Kind::Product:
                return a * b;
            default:
                break;
        }
        auto both = broadcast(a, b);
        return both ? *both : dim::operation(Kind::Broadcast, a, b);
    }

    DimExpr of_atom(AtomPtr const& factor) {
        if (auto found = done_.find(factor.get()); found != done_.end()) return found->second;
        auto result = rebuild(factor);
        done_.emplace(factor.get(), result);
        return result;
    }

public:
    explicit Substitution(std::span<int64_t const> bindings, int64_t more = 0) : bindings_(bindings), more_(more) {}

    DimExpr operator()(DimExpr const& x) {
        if (x.is_constant()) return x;
        DimExpr sum = 0;
        for (auto const& term : x.node()->terms) {
            DimExpr product = term.coefficient;
            for (auto const& factor : term.factors) product = product * of_atom(factor);
            sum = sum + product;
        }
        return sum;
    }
};

void collect_symbols(DimExpr const& x, std::unordered_set<DimAtom const*>& seen, std::vector<SymbolId>& out) {
    if (x.is_constant()) return;
    for (auto const& term : x.node()->terms) {
        for (auto const& factor : term.factors) {
            if (!seen.insert(factor.get()).second) continue;
            if (factor->kind == Kind::Symbol) out.push_back(factor->symbol);
            collect_symbols(factor->a, seen, out);
            collect_symbols(factor->b, seen, out);
        }
    }
}

}  // namespace

SymbolId SymbolTable::intern(std::string_view name) {
    if (auto known = find(name)) return *known;
    names_.emplace_back(name);
    return static_cast<SymbolId>(names_.size() - 1);
}

std::optional<SymbolId> SymbolTable::find(std::string_view name) const {
    auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) return std::nullopt;
    return static_cast<SymbolId>(found - names_.begin());
}

DimExpr DimExpr::symbol(SymbolId id) { return dim::from_atom(dim::intern(Kind::Symbol, id, 0, 0)); }

std::optional<int64_t> DimExpr::constant() const {
    if (node_) return std::nullopt;
    return constant_;
}

std::optional<SymbolId> DimExpr::as_symbol() const {
    auto const* atom = dim::single_atom(*this);
    if (!atom || atom->kind != Kind::Symbol) return std::nullopt;
    return atom->symbol;
}

std::optional<DimExpr> DimExpr::as_clamped() const {
    auto const* atom = dim::single_atom(*this);
    if (!atom || atom->kind != Kind::Max) return std::nullopt;
    if (atom->a == DimExpr(0)) return atom->b;
    return atom->b == DimExpr(0) ? std::optional(atom->a) : std::nullopt;
}

DimExpr operator+(DimExpr const& a, DimExpr const& b) {
    if (dim::is_invalid(a) || dim::is_invalid(b)) return dim::invalid();
    if (a.is_constant() && b.is_constant()) {
        int64_t sum;
        return __builtin_add_overflow(a.constant_, b.constant_, &sum) ? dim::invalid() : DimExpr(sum);
    }
    auto sum = dim::add(dim::sum_of(a), dim::sum_of(b));
    return sum ? dim::from_sum(std::move(*sum)) : dim::invalid();
}

DimExpr operator-(DimExpr const& a, DimExpr const& b) {
    if (a.is_constant() && b.is_constant()) {
        int64_t difference;
        return __builtin_sub_overflow(a.constant_, b.constant_, &difference) ? dim::invalid() : DimExpr(difference);
    }
    return a + b * -1;
}

DimExpr operator*(DimExpr const& a, DimExpr const& b) {
    if (dim::is_invalid(a) || dim::is_invalid(b)) return dim::invalid();
    if (a.is_constant() && b.is_constant()) {
        int64_t product;
        return __builtin_mul_overflow(a.constant_, b.constant_, &product) ? dim::invalid() : DimExpr(product);
    }
    auto s = dim::sum_of(a), t = dim::sum_of(b);
    if (s.size() * t.size() > kMaxTerms)
        return dim::compare(a, b) <= 0 ? dim::operation(Kind::Product, a, b) : dim::operation(Kind::Product, b, a);
    DimSum result;
    for (auto const& term : t) {
        auto part = dim::multiply_term(s, term);
        auto sum = part ? dim::add(result, *part) : std::nullopt;
        if (!sum) return dim::invalid();
        result = std::move(*sum);
    }
    return dim::from_sum(std::move(result));
}

bool DimExpr::operator==(DimExpr const& other) const {
    if (!node_ || !other.node_) return !node_ && !other.node_ && constant_ == other.constant_;
    if (node_ == other.node_) return true;
    auto const &s = node_->terms, &t = other.node_->terms;
    if (node_->hash != other.node_->hash || s.size() != t.size()) return false;
    for (size_t i = 0; i < s.size(); ++i)
        if (s[i].coefficient != t[i].coefficient || s[i].factors != t[i].factors) return false;
    return true;
}

size_t DimExpr::hash() const { return node_ ? node_->hash : static_cast<size_t>(constant_) * 0x9e3779b97f4a7c15ull; }

std::optional<int64_t> DimExpr::evaluate(std::span<int64_t const> bindings) const {
    if (!node_) return constant_;
    auto value = Evaluation(bindings)(*this);
    if (value == kUnbound) return std::nullopt;
    return value;
}

DimExpr DimExpr::substitute(std::span<int64_t const> bindings) const { return Substitution(bindings)(*this); }

std::vector<SymbolId> DimExpr::symbols() const {
    std::vector<SymbolId> ids;
    std::unordered_set<DimAtom const*> seen;
    collect_symbols(*this, seen, ids);
    std::sort(ids.begin(), ids.end());
    return ids;
}

std::optional<int64_t> DimExpr::lower_bound() const { return dim::range_of(*this).low; }

std::optional<int64_t> DimExpr::lower_bound_if_positive() const { return Substitution({}, 1)(*this).lower_bound(); }

DimExpr element_count(Shape const& shape) {
    DimExpr product = 1;
    for (auto const& size : shape) product = product * size;
    return product;
}

}  // namespace refactor
