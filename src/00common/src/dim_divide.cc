#include "dim_node.h"

#include <algorithm>
#include <numeric>

// A symbol that occurs in numerator and divisor cancels: where it is 0 the division has no value anyway. So
// `floor_div(N * S, N)` is `S`, and evaluates to `S` even for N = 0.

namespace refactor {
namespace {

using dim::Kind;

// Steps of a polynomial division before it is given up.
constexpr int kMaxDivisionSteps = 256;

uint64_t magnitude(int64_t x) { return x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x); }

/// The largest positive monomial that divides every term of both sums (not both empty).
DimTerm common_factor(DimSum const& a, DimSum const& b) {
    uint64_t divisor = 0;
    std::vector<AtomPtr> factors = b[0].factors;
    for (auto const* sum : {&a, &b}) {
        for (auto const& term : *sum) {
            divisor = std::gcd(divisor, magnitude(term.coefficient));
            std::vector<AtomPtr> both;
            std::set_intersection(factors.begin(), factors.end(), term.factors.begin(), term.factors.end(),
                                  std::back_inserter(both),
                                  [](AtomPtr const& x, AtomPtr const& y) { return dim::compare(x, y) < 0; });
            factors = std::move(both);
        }
    }
    // 2^63 is not an int64; one divides as well.
    return {divisor > INT64_MAX ? 1 : static_cast<int64_t>(divisor), std::move(factors)};
}

/// `term / by` if that is a term with an integer coefficient.
std::optional<DimTerm> divide_term(DimTerm const& term, DimTerm const& by) {
    if (by.coefficient == -1 && term.coefficient == INT64_MIN) return std::nullopt;
    if (term.coefficient % by.coefficient != 0) return std::nullopt;
    DimTerm result{term.coefficient / by.coefficient, {}};
    auto less = [](AtomPtr const& x, AtomPtr const& y) { return dim::compare(x, y) < 0; };
    auto const &f = term.factors, &g = by.factors;
    if (!std::includes(f.begin(), f.end(), g.begin(), g.end(), less)) return std::nullopt;
    std::set_difference(f.begin(), f.end(), g.begin(), g.end(), std::back_inserter(result.factors), less);
    return result;
}

/// `sum / by`, where `by` divides every term.
DimSum divide_terms(DimSum const& sum, DimTerm const& by) {
    DimSum result;
    for (auto const& term : sum) result.push_back(*divide_term(term, by));
    return result;
}

/// The polynomial `a / b` if the division leaves no rest.
std::optional<DimSum> divide_exactly(DimSum rest, DimSum const& b) {
    DimSum quotient;
    for (int step = 0; !rest.empty(); ++step) {
        auto term = step < kMaxDivisionSteps ? divide_term(rest[0], b[0]) : std::nullopt;
        if (!term || term->coefficient == INT64_MIN) return std::nullopt;
        auto product = dim::multiply_term(b, {-term->coefficient, term->factors});
        auto next = product ? dim::add(rest, *product) : std::nullopt;
        if (!next) return std::nullopt;
        rest = std::move(*next);
        quotient.push_back(std::move(*term));
    }
    return quotient;
}

/// `a = c * quotient + rest` with the coefficients of `rest` in [0, c); c > 0.
struct Division {
    DimSum quotient, rest;
};
Division divide_coefficients(DimSum const& a, int64_t c) {
    Division result;
    for (auto const& term : a) {
        int64_t rest = term.coefficient % c, quotient = term.coefficient / c;
        if (rest < 0) rest += c, --quotient;
        if (quotient) result.quotient.push_back({quotient, term.factors});
        if (rest) result.rest.push_back({rest, term.factors});
    }
    return result;
}

/// Reduces `(sum + k) / c` by the common divisor of `c` and all coefficients but the constant, which is rounded down.
/// Returns the divisor and what it cut off the constant.
struct Reduction {
    int64_t divisor, remainder;
};
Reduction reduce(DimSum& sum, int64_t& c) {
    int64_t divisor = c;
    for (auto const& term : sum)
        if (!term.factors.empty()) divisor = std::gcd(divisor, term.coefficient);
    int64_t remainder = 0;
    for (auto& term : sum) {
        if (term.factors.empty()) remainder = term.coefficient % divisor;
        term.coefficient /= divisor;
    }
    if (!sum.empty() && sum.back().coefficient == 0) sum.pop_back();
    c /= divisor;
    return {divisor, remainder};
}

bool is_number(DimSum const& sum) { return sum.empty() || sum[0].factors.empty(); }

/// `floor_div(floor_div(x, d) + k, c)` is `floor_div(x + k * d, c * d)`; nothing if `rest` has another form.
std::optional<DimExpr> merge_divisions(DimSum const& rest, int64_t c) {
    if (rest[0].coefficient != 1 || rest[0].factors.size() != 1 || rest[0].factors[0]->kind != Kind::FloorDiv)
        return {};
    if (rest.size() > 2 || (rest.size() == 2 && !rest[1].factors.empty())) return {};
    auto const& inner = *rest[0].factors[0];
    auto d = inner.b.constant();
    int64_t product, shift = 0;
    if (!d || *d <= 0 || __builtin_mul_overflow(*d, c, &product)) return {};
    if (rest.size() == 2 && __builtin_mul_overflow(rest[1].coefficient, *d, &shift)) return {};
    auto merged = floor_div(inner.a + shift, product);
    if (dim::is_invalid(merged)) return {};
    return merged;
}

DimExpr floor_div_by(DimExpr const& a, int64_t c) {
    if (c == 1) return a;
    auto [quotient, rest] = divide_coefficients(dim::sum_of(a), c);
    auto whole = dim::from_sum(std::move(quotient));
    if (is_number(rest)) return whole;
    reduce(rest, c);
    if (c == 1) return whole + dim::from_sum(std::move(rest));
    if (auto merged = merge_divisions(rest, c)) return whole + *merged;
    return whole + dim::operation(Kind::FloorDiv, dim::from_sum(std::move(rest)), c);
}

/// `a` with what it has of remainders by multiples of `c` as what these are of.
DimExpr without_remainders(DimExpr const& a, int64_t c) {
    auto result = a;
    for (auto const& term : dim::sum_of(a)) {
        if (term.factors.size() != 1 || term.factors[0]->kind != Kind::Mod) continue;
        auto const& inner = *term.factors[0];
        if (auto divisor = inner.b.constant(); divisor && *divisor > 0 && *divisor % c == 0)
            result = result + (inner.a - dim::from_atom(term.factors[0])) * term.coefficient;
    }
    return dim::is_invalid(result) ? a : result;
}

/// `mod(a, c)`; that of what is mostly negative is what lacks to the next multiple, so that sizes that are padded to
/// multiples of `c` are such.
DimExpr mod_by(DimExpr const& a, int64_t c) {
    auto rest = divide_coefficients(dim::sum_of(without_remainders(a, c)), c).rest;
    if (is_number(rest)) return dim::from_sum(std::move(rest));
    auto [divisor, remainder] = reduce(rest, c);
    if (c == 1) return remainder;
    if (rest[0].coefficient <= c / 2)
        return dim::operation(Kind::Mod, dim::from_sum(std::move(rest)), c) * divisor + remainder;
    for (auto& term : rest) term.coefficient = term.factors.empty() ? -term.coefficient : c - term.coefficient;
    auto size = dim::from_sum(std::move(rest));
    return (ceil_div(size, c) * c - size) * divisor + remainder;
}

/// Both operands without their common factor.
struct Fraction {
    DimSum a, b;
    DimTerm factor;
};
Fraction cancel(DimExpr const& a, DimExpr const& b) {
    auto s = dim::sum_of(a), t = dim::sum_of(b);
    auto factor = common_factor(s, t);
    return {divide_terms(s, factor), divide_terms(t, factor), std::move(factor)};
}

DimExpr negate(DimSum const& sum) { return dim::from_sum(sum) * -1; }

/// floor_div or ceil_div by a divisor that is not a constant.
DimExpr divide_by_symbols(Kind kind, DimExpr const& a, DimExpr const& b) {
    auto divide = kind == Kind::FloorDiv ? floor_div : ceil_div;
    if (a == b) return 1;
    if (a == DimExpr(0)) return 0;
    auto [s, t, factor] = cancel(a, b);
    if (t[0].coefficient < 0) return divide(negate(s), negate(t));
    if (is_number(t)) return divide(dim::from_sum(std::move(s)), dim::from_sum(std::move(t)));
    if (auto exact = divide_exactly(s, t)) return dim::from_sum(std::move(*exact));
    DimSum quotient;
    if (t.size() == 1) {
        // One term divides: what it divides leaves the fraction.
        DimSum rest;
        for (auto& term : s) {
            if (auto part = divide_term(term, t[0]))
                quotient.push_back(std::move(*part));
            else
                rest.push_back(std::move(term));
        }
        s = std::move(rest);
        if (!quotient.empty())
            return dim::from_sum(std::move(quotient)) +
                   divide(dim::from_sum(std::move(s)), dim::from_sum(std::move(t)));
    }
    return dim::operation(kind, dim::from_sum(std::move(s)), dim::from_sum(std::move(t)));
}

}  // namespace

DimExpr floor_div(DimExpr const& a, DimExpr const& b) {
    if (dim::is_invalid(a) || dim::is_invalid(b)) return dim::invalid();
    auto c = b.constant();
    if (!c) return divide_by_symbols(Kind::FloorDiv, a, b);
    if (*c == 0 || *c == INT64_MIN) return dim::operation(Kind::FloorDiv, a, b);
    return *c < 0 ? floor_div_by(a * -1, -*c) : floor_div_by(a, *c);
}

DimExpr ceil_div(DimExpr const& a, DimExpr const& b) {
    if (dim::is_invalid(a) || dim::is_invalid(b)) return dim::invalid();
    auto c = b.constant();
    if (!c) return divide_by_symbols(Kind::CeilDiv, a, b);
    if (*c == 0 || *c == INT64_MIN) return dim::operation(Kind::CeilDiv, a, b);
    // One form for both roundings: the constant c - 1 stays below the divisor.
    return *c < 0 ? ceil_div(a * -1, -*c) : floor_div(a + (*c - 1), *c);
}

DimExpr mod(DimExpr const& a, DimExpr const& b) {
    if (dim::is_invalid(a) || dim::is_invalid(b)) return dim::invalid();
    if (auto c = b.constant()) {
        if (*c == 0 || *c == INT64_MIN) return dim::operation(Kind::Mod, a, b);
        return *c < 0 ? mod(a * -1, -*c) * -1 : mod_by(a, *c);
    }
    if (a == b || a == DimExpr(0)) return 0;
    auto [s, t, factor] = cancel(a, b);
    auto scale = dim::from_sum({factor});
    if (is_number(t)) return scale * mod(dim::from_sum(std::move(s)), dim::from_sum(std::move(t)));
    if (divide_exactly(s, t)) return 0;
    return scale * dim::operation(Kind::Mod, dim::from_sum(std::move(s)), dim::from_sum(std::move(t)));
}

}  // namespace refactor
